"""What a key with `admin` sees and does about other callers' data, and what every other key does not."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

KEYS: dict[str, tuple[str, set[Scope]]] = {
    "anna": ("key:anna", {"call", "read", "cancel"}),
    "bert": ("key:bert", {"call", "read", "cancel", "approve"}),
    "looks": ("key:ops", {"read", "admin"}),
    "ops": ("key:ops", {"call", "read", "cancel", "admin"}),
}
NOT_FOUND, FORBIDDEN = "urn:outlast:problem:task-not-found", "urn:outlast:problem:forbidden-scope"


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
async def api(temporal: Client, sandbox: Sandbox, tmp_path: Path, audit: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API with the keys of `KEYS`; `as_` has their headers."""
    policy = tmp_path / "policy.toml"
    as_: dict[str, dict[str, str]] = {}
    for name, (caller, scopes) in KEYS.items():
        key, hashed = new_key(name)
        add_key(policy, KeyEntry(id=name, caller=caller, hash=str(hashed), scopes=frozenset(scopes)))
        as_[name] = bearer(key.get_secret_value())
    with policy.open("a") as file:
        file.write('[callers."key:ops"]\nroles = ["operator"]\nspending = {per_day_usd = 5}\n')
        file.write('[[rules]]\ncaller = "key:anna"\ntool = "call-actor"\naction = "allow"\n')
    settings = api_settings(sandbox, policy_file=policy, audit_file=audit, grafana_url="https://grafana.example")
    async with serving_api(temporal, settings) as api:
        AS.clear()
        AS.update(as_)
        yield api


AS: dict[str, dict[str, str]] = {}
"""The headers of each key, while an API runs."""


async def get(api: httpx.AsyncClient, key: str, path: str, **params: Any) -> httpx.Response:
    return await api.get(f"/v1/{path}", headers=AS[key], params=params)


async def listed(api: httpx.AsyncClient, key: str, **params: Any) -> dict[str, dict[str, Any]]:
    response = await get(api, key, "tasks", page_size=200, **params)
    assert response.status_code == 200, response.text
    return {task["id"]: task for task in response.json()["tasks"]}


async def is_listed(api: httpx.AsyncClient, task_id: str, **params: Any) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        return (await listed(api, "ops", caller="*", **params)).get(task_id)

    return await eventually(found)


def records(audit: Path, event: str) -> list[dict[str, Any]]:
    return [one for line in audit.read_text().splitlines() if (one := json.loads(line))["event"] == event]


async def test_a_key_learns_who_it_is(api: httpx.AsyncClient) -> None:
    me = (await get(api, "ops", "me")).json()
    assert (me["caller"], me["key_id"], me["roles"]) == ("key:ops", "ops", ["operator"])
    assert me["scopes"] == ["admin", "call", "cancel", "read"]
    assert (me["spending"]["per_day_usd"], me["limits"]["batches"]) == (5, 20)
    assert me["links"]["grafana"] == "https://grafana.example"
    assert me["version"]
    assert me["namespace"] == "default"
    ann = (await get(api, "anna", "me")).json()
    assert (ann["caller"], ann["roles"], any(ann["spending"].values())) == ("key:anna", [], False)


async def test_an_admin_lists_and_reads_tasks_of_others_and_the_audit_log_has_it(
    api: httpx.AsyncClient, audit: Path
) -> None:
    answer = await completed(api, sleeper_call(0, rows=2), **AS["anna"])
    task_id, run_id = answer["task"]["id"], answer["task"]["run"]["run_id"]
    assert (await is_listed(api, task_id))["caller"] == "key:anna"
    by_run = await is_listed(api, task_id, run_id=run_id, actor="outlast/sleeper", status=["completed", "failed"])
    assert by_run["id"] == task_id
    assert task_id in await listed(api, "looks", caller="key:anna")
    assert task_id not in await listed(api, "ops")
    assert task_id not in await listed(api, "ops", caller="key:bert")
    for path, words in (("", "task"), ("/result", "result"), ("/events", "events"), ("/rows?format=jsonl", "rows")):
        response = await get(api, "looks", f"tasks/{task_id}{path}")
        assert response.status_code == 200, response.text
        last = records(audit, "task.read")[-1]
        assert (last["caller"], last["task"], last["detail"]) == ("key:ops", task_id, f"{words} of key:anna")
        assert (await get(api, "anna", f"tasks/{task_id}{path}")).status_code == 200
        refused = await get(api, "bert", f"tasks/{task_id}{path}")
        assert (refused.status_code, refused.json()["type"]) == (404, NOT_FOUND)
    assert len(records(audit, "task.read")) == 4
    rows = (await get(api, "looks", f"tasks/{task_id}/rows", format="jsonl")).text.splitlines()
    assert len(rows) == 2


async def test_others_may_not_ask_for_the_tasks_of_a_caller(api: httpx.AsyncClient) -> None:
    assert await listed(api, "anna", caller="key:anna") is not None
    for caller in ("*", "key:bert", "key:ops"):
        refused = await get(api, "anna", "tasks", caller=caller)
        assert (refused.status_code, refused.json()["type"]) == (403, FORBIDDEN)
    misspelt = await get(api, "ops", "tasks", callers="*")
    assert misspelt.status_code == 422
    assert "did you mean" in misspelt.text.lower()
    hostile = await get(api, "ops", "tasks", caller="' OR ExecutionStatus = 'Running")
    assert (hostile.status_code, hostile.json()["tasks"]) == (200, [])


async def test_an_admin_cancels_tasks_of_others_and_a_key_that_only_looks_does_not(
    api: httpx.AsyncClient, audit: Path
) -> None:
    task_id = await started(api, sleeper_call(60), **AS["anna"])
    for key, status in (("bert", 404), ("looks", 403)):
        assert (await api.post(f"/v1/tasks/{task_id}/cancel", headers=AS[key])).status_code == status
    assert (await api.post(f"/v1/tasks/{task_id}/cancel", headers=AS["ops"])).status_code == 202
    done = [one for one in records(audit, "task.cancelled") if one["outcome"] == "ok"]
    assert [(one["caller"], one["detail"]) for one in done] == [("key:ops", "task of key:anna")]

    async def is_cancelled() -> bool:
        return (await get(api, "anna", f"tasks/{task_id}")).json()["status"] == "cancelled"

    await eventually(is_cancelled)


async def test_ended_tasks_are_found_by_their_end_and_failed_ones_say_why(api: httpx.AsyncClient) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    failed = await completed(
        api, sleeper_call(0, failWith={"exitCode": 1, "message": "The shop answers 403"}), **AS["anna"]
    )
    task_id = failed["task"]["id"]
    assert failed["task"]["error"]["category"] == failed["result"]["error"]["category"]
    found = await is_listed(api, task_id, status="failed", since=before.isoformat())
    assert found["error"] == {"category": failed["result"]["error"]["category"], "message": found["error"]["message"]}
    assert found["error"]["message"] == failed["result"]["error"]["message"]
    ended = datetime.fromisoformat(found["finished_at"])
    later, earlier = (ended + timedelta(seconds=5)).isoformat(), (ended - timedelta(seconds=5)).isoformat()
    assert task_id not in await listed(api, "anna", since=later)
    assert task_id not in await listed(api, "anna", until=earlier)
    assert task_id in await listed(api, "anna", since=earlier, until=later)
    open_task = await started(api, sleeper_call(60), **AS["anna"])
    await is_listed(api, open_task, since=later)
    assert open_task not in await listed(api, "anna", until=earlier)
    assert (await get(api, "anna", "tasks", since="2026-11-28T18:00:00")).status_code == 422  # no time zone
    await api.post(f"/v1/tasks/{open_task}/cancel", headers=AS["anna"])


async def test_a_call_is_shown_with_masked_secrets_and_made_again_by_its_caller_only(
    api: httpx.AsyncClient, audit: Path
) -> None:
    first = (await completed(api, sleeper_call(0, rows=1), **AS["anna"]))["task"]["id"]
    call = (await get(api, "looks", f"tasks/{first}/call")).json()
    assert (call["caller"], call["tool"], call["actor"]) == ("key:anna", "call-actor", "outlast/sleeper")
    assert call["arguments"]["input"]["rows"] == 1
    assert call["options"]["deadline_seconds"] == 86_400
    assert (call["permission"]["action"], call["permission"]["rule"]) == ("allow", "key:anna:call-actor=allow")
    assert (await get(api, "bert", f"tasks/{first}/call")).status_code == 404

    path, key = f"/v1/tasks/{first}/again", {"Idempotency-Key": "once"}
    assert (await api.post(path, headers=AS["bert"])).status_code == 404
    assert (await api.post(path, headers=AS["looks"])).status_code == 403
    assert (await api.post(path, headers=AS["ops"])).status_code == 404, "whoever has `admin` could approve it, too"
    changes = {"options": {"budget": {"max_items": 7}}}
    made = await api.post(path, headers={**AS["anna"], **key}, json=changes)
    assert made.status_code == 201, made.text
    again = made.json()
    assert (again["caller"], again["again_of"]) == ("key:anna", first)
    repeated = await api.post(path, headers={**AS["anna"], **key}, json=changes)
    assert repeated.json()["id"] == again["id"]
    other = await api.post(path, headers={**AS["anna"], **key}, json={})
    assert (other.status_code, other.json()["type"]) == (409, "urn:outlast:problem:idempotency-key-reused")
    shown = (await get(api, "anna", f"tasks/{again['id']}/call")).json()
    assert (shown["arguments"], shown["again_of"]) == (call["arguments"], first)
    assert shown["options"]["budget"]["max_items"] == 7
    record = next(one for one in records(audit, "task.repeated") if one["outcome"] == "ok")
    assert (record["caller"], record["detail"]) == ("key:anna", f"again as {again['id']}")


async def test_secret_and_large_arguments_survive_a_repetition(api: httpx.AsyncClient) -> None:
    secret, large = "s3cret-of-ann-0123456789", "x" * 200_000
    saved_input = {"seconds": 0, "note": secret}
    saves = {"actor": "outlast/sleeper", "name": "first-task", "input": saved_input}
    ended = await completed(api, {"tool": "create-actor-task", "arguments": saves}, **AS["anna"])
    first = ended["task"]["id"]
    call = await get(api, "anna", f"tasks/{first}/call")
    assert secret not in call.text
    assert call.json()["arguments"]["input"] == "[secret]"
    path, changes = f"/v1/tasks/{first}/again", {"arguments": {"name": "second-task"}}
    made = await api.post(path, headers=AS["anna"], json=changes)
    assert made.status_code == 201, made.text
    answer = await result_of(api, made.json()["id"], **AS["anna"])
    assert answer["task"]["status"] == ended["task"]["status"], answer
    assert secret not in (await get(api, "anna", f"tasks/{made.json()['id']}/call")).text

    first = (await completed(api, sleeper_call(0, note=large), **AS["anna"]))["task"]["id"]
    call = await get(api, "anna", f"tasks/{first}/call")
    assert len(call.text) < 10_000
    made = await api.post(f"/v1/tasks/{first}/again", headers=AS["anna"])
    assert made.status_code == 201, made.text
    again = await get(api, "anna", f"tasks/{made.json()['id']}/call")
    kept = again.json()["arguments"]["input"]["note"]["$kept"]
    assert kept == call.json()["arguments"]["input"]["note"]["$kept"]
    assert kept["size_bytes"] == len(large) + 2


async def test_an_admin_checks_the_server_and_the_policy(api: httpx.AsyncClient) -> None:
    report = (await get(api, "looks", "health")).json()
    rows = {row["name"]: row for row in report["checks"]}
    assert {"Temporal namespace", "Search attributes", "Queues", "Stuck workflows", "Limits"} <= set(rows)
    assert rows["Queues"]["health"] == "ok", rows["Queues"]
    asked = {"caller": "key:anna", "tool": "call-actor", "actor": "outlast/sleeper"}
    found = (await get(api, "looks", "policy/explain", **asked)).json()
    assert (found["action"], found["rule"]) == ("allow", "key:anna:call-actor=allow")
    for path, params in (("health", {}), ("policy/explain", asked)):
        assert (await get(api, "anna", path, **params)).status_code == 403


async def test_an_admin_reads_the_lists_of_other_callers_and_nobody_else_does(
    api: httpx.AsyncClient, audit: Path
) -> None:
    batch = {"tool": "outlast--sleeper", "items": [{"arguments": {"seconds": 0}}]}
    batch_id = (await api.post("/v1/batches", headers=AS["anna"], json=batch)).json()["id"]
    nightly = {"id": "nightly", "call": sleeper_call(0), "cron": ["0 3 * * *"], "time_zone": "UTC"}
    for key in ("anna", "bert"):
        made = await api.post("/v1/schedules", headers=AS[key], json=nightly)
        assert made.status_code == 201, made.text
    await api.post("/v1/schedules/nightly/pause", headers=AS["bert"])
    saved = await api.put("/v1/saved-calls/nap", headers=AS["anna"], json=sleeper_call(0))
    assert saved.status_code in (200, 201), saved.text

    async def batches() -> dict[str, Any] | None:
        found = (await get(api, "looks", "batches", caller="*")).json()["batches"]
        return next((one for one in found if one["id"] == batch_id), None)

    assert (await eventually(batches))["caller"] == "key:anna"

    async def upcoming() -> dict[str, Any] | None:
        found = (await get(api, "looks", "schedules/upcoming", caller="*")).json()["firings"]
        callers = {one["caller"] for one in found if one["schedule_id"] == "nightly"}
        return {"callers": callers} if "key:anna" in callers else None

    assert "key:bert" not in (await eventually(upcoming))["callers"]
    assert [one["schedule_id"] for one in (await get(api, "anna", "schedules/upcoming")).json()["firings"]] == [
        "nightly"
    ]
    assert (await get(api, "bert", "schedules/upcoming")).json()["firings"] == []
    for path in (f"batches/{batch_id}", "schedules/nightly", "saved-calls/nap"):
        shown = await get(api, "looks", path, caller="key:anna")
        assert shown.status_code == 200, shown.text
        assert records(audit, "resource.read")[-1]["detail"] == f"/v1/{path} of key:anna"
        assert (await get(api, "looks", path, caller="*")).status_code == 400
        assert (await get(api, "bert", path, caller="key:anna")).status_code == 403
    lists = ("batches", "schedules", "schedules/upcoming", "saved-calls", "webhooks", "webhooks/deliveries", "sessions")
    for path in (*lists, "handoffs"):
        assert (await get(api, "bert", path, caller="key:anna")).status_code == 403, path
        assert (await get(api, "bert", path, caller="*")).status_code == 403, path
        assert (await get(api, "looks", path, caller="key:anna")).status_code == 200, path
        wanted = 400 if path in ("saved-calls", "webhooks") else 200
        assert (await get(api, "looks", path, caller="*")).status_code == wanted, path
