"""Patterns of JavaScript in an Actor's input schema mean the same for the API and the sandbox as on the platform."""

from typing import Any

import httpx
import pytest

from tests.integration.tools.conftest import ToolCaller
from tests.support.stacks.sandbox import Sandbox

FITTING = {
    "letters": "naïveté",
    "twice": "2026-2026",
    "anything": "two\nlines!",
    "digits": "007",
    "price": "$5",
    "broken": "whatever",
    "since": "3 days",
}


async def test_what_fits_is_started_and_ends(call: ToolCaller) -> None:
    answer = await call("call-actor", actor="outlast/cutter", input=FITTING)
    assert answer.error is None
    assert answer.structured["items"] == [FITTING]


@pytest.mark.parametrize(
    ("name", "value"),
    [("letters", "n0"), ("twice", "2026-2027"), ("anything", "no\nend"), ("digits", "٣"), ("price", "5")],
)
async def test_what_does_not_fit_is_refused_before_it_starts(
    http: httpx.AsyncClient, sandbox: Sandbox, name: str, value: str
) -> None:
    arguments = {"actor": "outlast/cutter", "input": {name: value}}
    refused = await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": arguments})
    assert refused.status_code == 422
    assert refused.json()["error"]["violations"][0]["path"] == f"/input/{name}"
    headers = {"Authorization": f"Bearer {sandbox.token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=180) as platform:
        url = f"{sandbox.url}/v2/acts/outlast~cutter/runs"
        started = await platform.post(url, json={name: value}, headers=headers)
    # The sandbox applies the patterns that its engine can read, and starts where it cannot.
    assert started.status_code == (201 if name in ("twice", "anything") else 400), started.text


async def test_models_read_what_they_may_write(http: httpx.AsyncClient) -> None:
    shown: dict[str, Any] = (await http.get("/v1/tools/outlast--cutter")).json()["input_schema"]["properties"]
    assert "JavaScript pattern `^\\p{L}+$`" in shown["letters"]["description"]
    assert "a number and a unit: `3 days`" in shown["since"]["description"]
    assert "YYYY" not in shown["since"]["description"]
