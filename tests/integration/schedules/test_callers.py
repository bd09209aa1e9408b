"""Schedules and saved calls of callers: who reaches them, and which keys, rules and caps a firing meets."""

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.schedules.activities import read_note
from outlast.api.access.api_keys import new_key
from tests.support.calls.schedules import NEVER, fired, scheduled, seen
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service
from tests.support.whole_file import replace_text

SLEEPER = {"tool": "outlast--sleeper", "arguments": {"seconds": 0}}
READ = {"tool": "get-dataset-list", "arguments": {"limit": 1}}
SECRET = "plantedSecretOfASchedule0123456789"
UNKNOWN_ACTOR = {"tool": "call-actor", "arguments": {"actor": "nobody/knows-this-one", "input": {"password": SECRET}}}
_KEYS = {name: new_key(name) for name in ("ann", "bob")}
ANN, BOB = (bearer(secret.get_secret_value()) for secret, _ in _KEYS.values())


def policy_text(*callers: str, more: str = "") -> str:
    """A policy with the keys of these callers. Ann may have two schedules, and one saved call."""
    keys = [f'[[keys]]\nid = "{name}"\ncaller = "key:{name}"\nhash = "{_KEYS[name][1]}"\n' for name in callers]
    limits = '[callers."key:ann".limits]\nschedules = 2\nsaved_calls = 1\n'
    return "\n".join(["end_mark = true", more, limits, *keys, "[end]\n"])


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "policy.toml"
    path.write_text(policy_text("ann", "bob"))
    return path


@pytest.fixture(scope="module")
def settings(policy: Path) -> dict[str, str]:
    audit = str(policy.with_name("audit.jsonl"))
    return {"OUTLAST_POLICY_FILE": str(policy), "OUTLAST_AUDIT_FILE": audit, "OUTLAST_ACCEPT_APIFY_TOKENS": "false"}


service = service_fixture(scope="module", settings_from="settings", tools=["tests.support.tools.batch_tools"])


@pytest.fixture
async def shared(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with service.http() as client:
        yield client


@pytest.fixture
def ruled(policy: Path) -> Iterator[Any]:
    """Writes the policy; after the test it is as before."""
    yield partial(replace_text, policy)
    replace_text(policy, policy_text("ann", "bob"))


async def deleted(shared: httpx.AsyncClient, *names: str, **headers: str) -> None:
    for name in names:
        assert (await shared.delete(f"/v1/schedules/{name}", headers=headers)).status_code == 204

    async def none_listed() -> bool:
        listed = (await shared.get("/v1/schedules", headers=headers)).json()["schedules"]
        assert {one["id"] for one in listed}.isdisjoint(names)
        return True

    await eventually(none_listed)


async def test_a_schedule_is_its_callers_own(shared: httpx.AsyncClient, policy: Path) -> None:
    await scheduled(shared, "mine", ANN, call=READ)
    body = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    for method, path, sent in (
        ("GET", "", None),
        ("PATCH", "", {"note": "x"}),
        ("DELETE", "", None),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/trigger", None),
        ("POST", "/backfill", body),
        ("GET", "/times", None),
    ):
        answer = await shared.request(method, f"/v1/schedules/mine{path}", headers=BOB, json=sent)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:outlast:problem:schedule-not-found")
    # The same id of another caller is another schedule.
    await scheduled(shared, "mine", BOB, call=READ, note="bob's")

    async def each_lists_its_own() -> bool:
        for headers, note in ((ANN, None), (BOB, "bob's")):
            (listed,) = (await shared.get("/v1/schedules", headers=headers)).json()["schedules"]
            assert (listed["id"], listed["note"]) == ("mine", note)
        return True

    await eventually(each_lists_its_own)
    firing = await fired(shared, "mine", ANN)
    assert (await shared.get(f"/v1/tasks/{firing['task_id']}", headers=ANN)).status_code == 200
    assert (await shared.get(f"/v1/tasks/{firing['task_id']}", headers=BOB)).status_code == 404
    records = [json.loads(line) for line in policy.with_name("audit.jsonl").read_text().splitlines()]
    (started,) = [one for one in records if one["event"] == "task.started" and one.get("task") == firing["task_id"]]
    assert (started["door"], started["caller"]) == ("schedule", "key:ann")
    told = [one["event"] for one in records if one.get("schedule") == "mine" and one["caller"] == "key:ann"]
    assert told == ["schedule.created", "schedule.triggered"]
    await deleted(shared, "mine", **ANN)
    await deleted(shared, "mine", **BOB)


async def test_a_schedule_over_rows_that_its_caller_cannot_read_is_refused_when_it_is_made(
    shared: httpx.AsyncClient,
) -> None:
    made = await completed(shared, sleeper_call(0, rows=2), **ANN)
    dataset = made["task"]["run"]["dataset_id"]
    batch = {"tool": "outlast--sleeper", "mapping": {"seconds": "seconds"}, "rows": {"dataset": dataset}}
    body = {"id": "rows", "batch": batch, **NEVER}
    assert (await shared.post("/v1/schedules", json=body, headers=ANN)).status_code == 201
    for rows in ({"dataset": dataset}, {"dataset": "no-dataset-0123456"}, {"output": "no-output"}):
        refused = await shared.post("/v1/schedules", json=body | {"batch": batch | {"rows": rows}}, headers=BOB)
        assert refused.status_code in {400, 404, 422}, (rows, refused.text)
        changed = await shared.patch("/v1/schedules/rows", json={"batch": batch | {"rows": rows}}, headers=BOB)
        assert changed.status_code == 404, "there is none to be changed"
    other = {"batch": batch | {"rows": {"dataset": "no-dataset-0123456"}}}
    assert (await shared.patch("/v1/schedules/rows", json=other, headers=ANN)).status_code == 422
    assert (await shared.get("/v1/schedules", headers=BOB)).json()["schedules"] == []
    await deleted(shared, "rows", **ANN)


async def test_limits_of_the_policy_are_kept(shared: httpx.AsyncClient) -> None:
    for name in ("one", "two"):
        await scheduled(shared, name, ANN, call=READ)

    async def full() -> httpx.Response:
        answer = await shared.post("/v1/schedules", json={"id": "three", "call": READ, **NEVER}, headers=ANN)
        if answer.is_success:  # lists lag behind
            await shared.delete("/v1/schedules/three", headers=ANN)
        assert answer.status_code == 429, answer.text
        return answer

    assert "`schedules`" in (await eventually(full)).json()["detail"]
    await deleted(shared, "one", "two", **ANN)
    assert (await shared.put("/v1/saved-calls/first", json=READ, headers=ANN)).status_code == 200
    second = await shared.put("/v1/saved-calls/second", json=READ, headers=ANN)
    assert (second.status_code, "`saved_calls`" in second.text) == (429, True)
    assert (await shared.put("/v1/saved-calls/first", json=SLEEPER, headers=ANN)).status_code == 200
    assert (await shared.get("/v1/saved-calls", headers=BOB)).json() == {"saved_calls": []}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run")):
        assert (await shared.request(method, f"/v1/saved-calls/first{path}", headers=BOB)).status_code == 404
    assert (await shared.delete("/v1/saved-calls/first", headers=ANN)).status_code == 204


async def test_a_firing_of_a_caller_whose_key_was_revoked_is_refused_and_pauses_the_schedule(
    shared: httpx.AsyncClient, ruled: Any, service: Service, temporal: Client
) -> None:
    await scheduled(shared, "revoked", BOB, call=SLEEPER)
    ruled(policy_text("ann"))

    async def is_revoked() -> bool:
        return (await shared.get("/v1/schedules", headers=BOB)).status_code == 401

    await eventually(is_revoked)
    starts = service.sandbox.counters["startsAccepted"]
    (temporal_id,) = [one.id async for one in await temporal.list_schedules("OutlastCaller = 'key:bob'")]
    handle = temporal.get_schedule_handle(temporal_id)
    await handle.trigger()

    async def paused() -> str:
        state = (await handle.describe()).schedule.state
        assert state.paused
        return await read_note(state.note, temporal.data_converter) or ""

    assert "key:bob no longer has a credential" in await eventually(paused)
    assert service.sandbox.counters["startsAccepted"] == starts
    ruled(policy_text("ann", "bob"))

    async def is_back() -> bool:
        return (await shared.get("/v1/schedules/revoked", headers=BOB)).status_code == 200

    await eventually(is_back)
    (firing,) = (await seen(shared, "revoked", BOB))["recent"]
    assert (firing["status"], firing["error"]["category"]) == ("refused", "authentication")
    assert (await shared.post("/v1/schedules/revoked/resume", headers=BOB)).status_code == 200
    assert (await fired(shared, "revoked", BOB))["status"] == "completed"
    await deleted(shared, "revoked", **BOB)


async def test_rules_and_caps_of_today_hold_for_a_schedule_of_yesterday(
    shared: httpx.AsyncClient, ruled: Any, service: Service
) -> None:
    dear = {**SLEEPER, "options": {"budget": {"max_total_charge_usd": 1}}}
    await scheduled(shared, "ruled", BOB, call=dear)
    assert (await fired(shared, "ruled", BOB))["status"] == "completed"
    starts = service.sandbox.counters["startsAccepted"]
    ruled(policy_text("ann", "bob", more='[[rules]]\ncaller = "key:bob"\ntool = "outlast/sleeper"\naction = "deny"\n'))

    async def is_denied() -> bool:
        answer = await shared.post("/v1/schedules", json={"id": "denied", "call": SLEEPER, **NEVER}, headers=BOB)
        if answer.is_success:
            await shared.delete("/v1/schedules/denied", headers=BOB)
        return answer.status_code == 422

    await eventually(is_denied)
    firing = await fired(shared, "ruled", BOB)
    assert (firing["status"], firing["error"]["category"]) == ("failed", "permission")
    assert (await seen(shared, "ruled", BOB))["paused"]

    ruled(policy_text("ann", "bob", more='[callers."key:bob".spending]\nper_day_usd = 0.5\n'))

    async def is_allowed() -> bool:
        answer = await shared.post("/v1/schedules", json={"id": "denied", "call": SLEEPER, **NEVER}, headers=BOB)
        return answer.is_success

    await eventually(is_allowed)
    assert (await shared.post("/v1/schedules/ruled/resume", headers=BOB)).status_code == 200
    capped = await fired(shared, "ruled", BOB)
    assert (capped["status"], capped["error"]["category"]) == ("failed", "payment")
    schedule = await seen(shared, "ruled", BOB)
    assert (schedule["paused"], "daily cap" in schedule["paused_because"]) == (True, True)
    assert service.sandbox.counters["startsAccepted"] == starts
    await deleted(shared, "ruled", "denied", **BOB)


async def test_secrets_are_sealed_masked_and_kept_when_their_mask_comes_back(
    shared: httpx.AsyncClient, temporal: Client, service: Service
) -> None:
    """`call-actor` for an Actor whose schema nobody knows: its whole input is secret."""
    made = await scheduled(shared, "secret", BOB, call=UNKNOWN_ACTOR, pause_on=[])
    assert made["call"]["arguments"]["input"] == "[secret]"
    firing = await fired(shared, "secret", BOB)
    assert firing["error"]["category"] == "not_found"
    changed = await shared.patch("/v1/schedules/secret", json={"call": made["call"], "note": "same"}, headers=BOB)
    assert changed.json()["call"] == made["call"], changed.text
    saved = await shared.put("/v1/saved-calls/secret", json=UNKNOWN_ACTOR, headers=BOB)
    assert saved.json()["arguments"]["input"] == "[secret]"
    again = {"tool": "call-actor", "arguments": saved.json()["arguments"]}
    assert (await shared.put("/v1/saved-calls/secret", json=again, headers=BOB)).status_code == 200
    run = await shared.post("/v1/saved-calls/secret/run", headers={**BOB, "Prefer": "wait=30"})
    assert run.json()["result"]["error"]["category"] == "not_found", run.text

    (temporal_id,) = [one.id async for one in await temporal.list_schedules("OutlastSchedule = 'secret'")]
    description = await temporal.get_schedule_handle(temporal_id).describe()
    assert SECRET not in str(description.raw_description)
    for workflow_id in (firing["id"], firing["task_id"], run.json()["task"]["id"]):
        assert SECRET not in (await temporal.get_workflow_handle(workflow_id).fetch_history()).to_json()
    kept = [path for path in (service.outputs / "saved-calls").rglob("*.json") if path.is_file()]
    assert kept
    assert [path for path in kept if SECRET in path.read_text()] == []
    assert (await shared.delete("/v1/saved-calls/secret", headers=BOB)).status_code == 204
    await deleted(shared, "secret", **BOB)


async def test_a_saved_call_is_started_by_people_and_schedules_as_it_is_by_then(shared: httpx.AsyncClient) -> None:
    async def saved(label: str) -> None:
        call = {"tool": "double", "arguments": {"number": 4, "label": label}}
        answer = await shared.put("/v1/saved-calls/four", json=call, headers=BOB)
        assert answer.status_code == 200, answer.text

    await saved("first")
    run = {"json": {"arguments": {"number": 5}}, "headers": {**BOB, "Prefer": "wait=30", "Idempotency-Key": "a run"}}
    answer = (await shared.post("/v1/saved-calls/four/run", **run)).json()
    assert answer["result"]["structured"] == {"doubled": 10}
    assert (await shared.post("/v1/saved-calls/four/run", **run)).json()["task"]["id"] == answer["task"]["id"]
    await scheduled(shared, "fours", BOB, saved={"name": "four"})
    first = await fired(shared, "fours", BOB)
    assert await _doubled(shared, first) == 8
    await shared.put("/v1/saved-calls/four", json={"tool": "double", "arguments": {"number": 50}}, headers=BOB)
    assert await _doubled(shared, await fired(shared, "fours", BOB)) == 100
    assert (await shared.delete("/v1/saved-calls/four", headers=BOB)).status_code == 204
    gone = await fired(shared, "fours", BOB)
    assert (gone["status"], gone["error"]["category"]) == ("refused", "not_found")
    await deleted(shared, "fours", **BOB)


async def _doubled(shared: httpx.AsyncClient, firing: dict[str, Any]) -> int:
    assert firing["status"] == "completed", firing
    answer = await shared.get(f"/v1/tasks/{firing['task_id']}/result", headers=BOB)
    return answer.json()["result"]["structured"]["doubled"]
