"""Items that equal calls answer: of the same batch, of an earlier one, and single ones. Each run is started once."""

from typing import Any

import httpx
import pytest

from tests.support.calls.batches import Body, begun, carried_out, doubles, ended, rows_of, seen, sleepers
from tests.support.calls.tasks import completed, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

HOUR: dict[str, Any] = {"reuse": {"max_age": "1h"}}


def reusing(messages: list[str], seconds: float = 0, reuse: dict[str, Any] | None = None, **more: Any) -> Body:
    """A batch of runs with these messages; of equal ones, one is started."""
    body = sleepers(len(messages), seconds, options={"reuse": reuse or HOUR["reuse"]}, **more)
    for item, message in zip(body["items"], messages, strict=True):
        item["arguments"]["input"]["message"] = message
    return body


def starts(sandbox: Sandbox) -> int:
    accepted: int = sandbox.counters["startsAccepted"]
    return accepted


async def test_equal_items_of_a_batch_start_one_run(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = starts(sandbox)
    batch = await carried_out(api, reusing(["one", "two", "one", "two", "one", "one"], 1, concurrency=6))
    assert (batch["status"], batch["completed"]) == ("completed", 6)
    assert starts(sandbox) - before == 2
    rows = await rows_of(api, batch["id"])
    assert {row["key"]: row["items"][0]["message"] for row in rows} == {
        "s0": "one", "s1": "two", "s2": "one", "s3": "two", "s4": "one", "s5": "one"
    }  # fmt: skip
    assert len({row["task_id"] for row in rows}) == 2
    reused = [row for row in rows if "reused" in row]
    assert len(reused) == 4
    assert {row["cost_usd"] for row in reused} == {0.0}
    assert batch["cost_usd"] == round(sum(row["cost_usd"] for row in rows), 9) > 0


async def test_the_answers_of_a_batch_answer_the_next_one_and_single_calls(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    body = reusing(["nightly 1", "nightly 2"])
    first = {row["key"]: row for row in await rows_of(api, (await carried_out(api, body))["id"])}
    before = starts(sandbox)
    again = await carried_out(api, body)
    rows = await rows_of(api, again["id"])
    assert {row["key"]: row["task_id"] for row in rows} == {key: row["task_id"] for key, row in first.items()}
    assert {row["run_id"] for row in rows} == {row["run_id"] for row in first.values()}
    assert all(row["reused"]["joined"] is False and row["reused"]["age_seconds"] >= 0 for row in rows)
    assert again["cost_usd"] == 0
    single = {"tool": "call-actor", "arguments": {**body["arguments"], "input": {"seconds": 0, "steps": 1}}}
    single["arguments"]["input"]["message"] = "nightly 1"
    answer = await completed(api, {**single, "options": HOUR})
    assert (answer["task"]["id"], answer["task"]["reused"]["joined"]) == (first["s0"]["task_id"], False)
    assert starts(sandbox) == before
    fresh = await carried_out(api, reusing(["nightly 1", "nightly 2"], reuse={"refresh": True}))
    assert starts(sandbox) - before == 2
    assert not [row for row in await rows_of(api, fresh["id"]) if "reused" in row]


async def test_what_failed_is_not_reused_and_a_retry_starts_anew(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = starts(sandbox)
    body = reusing(["fails"])
    body["arguments"]["input"]["failWith"] = {"exitCode": 3}
    batch = await carried_out(api, body)
    assert (batch["failed"], starts(sandbox) - before) == (1, 1)
    assert (await api.post(f"/v1/batches/{batch['id']}/retry", json={})).status_code == 202
    await ended(api, batch["id"])
    assert starts(sandbox) - before == 2
    assert (await carried_out(api, body))["failed"] == 1
    assert starts(sandbox) - before == 3


async def test_a_batch_that_is_cancelled_leaves_a_call_that_it_joined(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    arguments = {"steps": 1, "message": "joined by a batch"}
    single = await started(api, sleeper_call(600, **arguments) | {"options": HOUR})
    batch_id = await begun(api, reusing(["joined by a batch", "its own"], 600))

    async def both_run() -> bool:
        assert len(sandbox.counters["runningNow"]) == 2
        assert (await seen(api, batch_id))["under_way"] == 2
        return True

    await eventually(both_run)
    assert (await api.post(f"/v1/batches/{batch_id}/cancel")).status_code == 202
    batch = await ended(api, batch_id)
    assert (batch["status"], batch["cancelled"]) == ("cancelled", 2)
    assert (await api.get(f"/v1/tasks/{single}")).json()["status"] == "working"
    assert len(sandbox.counters["runningNow"]) == 1
    assert (await api.post(f"/v1/tasks/{single}/cancel")).status_code == 202


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (doubles(1, options=HOUR, tool="abort-actor-run"), "it has effects"),
        (reusing(["limited"], budget_usd="1"), "max_total_charge_usd"),
    ],
)
async def test_what_cannot_be_reused_is_refused(api: httpx.AsyncClient, body: Body, says: str) -> None:
    if body["tool"] == "abort-actor-run":
        body["items"] = [{"arguments": {"runId": "Abcdefgh123456789"}}]
    refused = await api.post("/v1/batches", json=body)
    assert refused.status_code == 422, refused.text
    assert says in refused.text
