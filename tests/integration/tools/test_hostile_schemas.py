"""An Actor's input schema is a stranger's: whatever it says, other callers are served meanwhile."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

SECONDS = 1


async def answered_until(done: asyncio.Task[Any], http: httpx.AsyncClient) -> int:
    """How many requests of others were answered before `done` was."""
    answered = 0
    while not done.done():
        health, tool = await asyncio.gather(http.get("/healthz"), http.get("/v1/tools/get-actor-run"))
        assert (health.status_code, tool.status_code) == (200, 200)
        answered += 1
    return answered


@pytest.mark.parametrize("tool", ["call-actor", "outlast--hostile"])
async def test_no_input_schema_holds_others_up(service: Service, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applied carelessly, the first two take hours. The API runs in the test's process and stands still with it."""
    # Other tests keep the processors busy, and the checks run after everything else.
    monkeypatch.setattr("outlast.activities.json_schema.checker.patience", lambda seconds: 500)
    attacks: list[tuple[dict[str, Any], str]] = [
        ({"text": "a" * 40 + "!"}, "does not match"),
        ({"rows": [{"n": n // 2} for n in range(20_000)]}, "non-unique"),
    ]
    if tool == "call-actor":  # the Actor's own tool has no references: models get none
        attacks.append(({"ways": {"value": 1}}, f"longer than {SECONDS} seconds"))
    settings = api_settings(service.sandbox, schema_check_seconds=SECONDS)
    async with serving_api(await connect(service.temporal_address), settings) as http:
        for run_input, said in attacks:
            arguments = {"actor": "outlast/hostile", "input": run_input} if tool == "call-actor" else run_input
            attack = asyncio.create_task(http.post("/v1/tasks", json={"tool": tool, "arguments": arguments}))
            answered = await answered_until(attack, http)
            refused = await attack
            assert refused.status_code == 422, refused.text
            assert said in refused.json()["error"]["violations"][0]["message"]
            assert answered >= (10 if "longer" in said else 1)
