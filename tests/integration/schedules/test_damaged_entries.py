"""One damaged entry among others: lists are whole, and it is shown as such, replaced and deleted.

Saved calls, stored outputs and records of usage are damaged on the disk; schedules, webhooks, tasks, batches and
sessions in Temporal, where a record is as another version, or another ring of keys, has left it.
"""

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, ScheduleActionStartWorkflow, ScheduleUpdate, ScheduleUpdateInput
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from outlast.activities.contracts import SealedSecret
from outlast.activities.outputs.output_format import scope_of
from outlast.activities.webhooks.contracts import (
    CREATE_UPDATE,
    CreateInput,
    WebhookEndpoint,
    WebhookEventType,
    WebhookSecret,
    WebhookSubscription,
)
from outlast.activities.webhooks.queues import Subscriptions
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from tests.support.calls.schedules import scheduled, seen
from tests.support.stacks.service import Service

LOCAL = "local"
CALL = {"tool": "double", "arguments": {"number": 2}}


def file_of(service: Service, name: str) -> Path:
    """Where a saved call is kept."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return service.outputs / "saved-calls" / "default" / scope_of(LOCAL) / f"{digest}.json"


async def save(api: httpx.AsyncClient, name: str, **more: Any) -> httpx.Response:
    return await api.put(f"/v1/saved-calls/{name}", json={**CALL, **more})


async def saved(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = await api.get("/v1/saved-calls")
    assert answer.is_success, answer.text
    return {one["name"]: one for one in answer.json()["saved_calls"]}


@pytest.mark.parametrize(
    ("damage", "keeps_name"),
    [
        (lambda content: b"", False),
        (lambda content: content[: len(content) // 2], True),
        (lambda content: b"\\xff\\x00" + content, True),
        (lambda content: json.dumps({**json.loads(content), "call": {"arguments": {}}}).encode(), True),
        (lambda content: b"[]", False),
    ],
)
async def test_a_damaged_saved_call_is_listed_replaced_and_deleted(
    damage: Callable[[bytes], bytes], keeps_name: bool, api: httpx.AsyncClient, service: Service
) -> None:
    for name in ("whole", "torn"):
        assert (await save(api, name, note="for people")).is_success
    file = file_of(service, "torn")

    def tear() -> None:
        file.write_bytes(damage(file.read_bytes()))

    tear()
    listed = await saved(api)
    assert listed["whole"]["damaged"] is None
    (name,) = listed.keys() - {"whole"}
    assert (name == "torn") is keeps_name
    assert "Save it again" in listed[name]["damaged"]
    for known in {name, "torn"}:
        assert (await api.get(f"/v1/saved-calls/{known}")).json()["damaged"]
    ran = await api.post("/v1/saved-calls/torn/run")
    assert (ran.status_code, "is damaged" in ran.text) == (422, True)

    assert (await save(api, "torn")).json()["damaged"] is None
    assert [one["damaged"] for one in (await saved(api)).values()] == [None, None]
    tear()
    assert (await api.delete(f"/v1/saved-calls/{name}")).status_code == 204
    assert (await saved(api)).keys() == {"whole"}
    await api.delete("/v1/saved-calls/whole")


async def test_a_mask_does_not_take_the_place_of_a_secret_that_is_lost(
    api: httpx.AsyncClient, service: Service
) -> None:
    await save(api, "torn")
    file_of(service, "torn").write_bytes(b"{")
    refused = await save(api, "torn", arguments={"number": 1, "label": "[secret]"})
    assert (refused.status_code, "enter them again" in refused.text) == (422, True)
    await api.delete("/v1/saved-calls/torn")


async def test_a_saved_call_in_the_place_of_another_is_not_run_under_its_name(
    api: httpx.AsyncClient, service: Service
) -> None:
    """As after files were copied or renamed: the call would be another one than was saved under the name."""
    assert (await save(api, "cheap")).is_success
    assert (await save(api, "dear", arguments={"number": 3})).is_success
    shutil.copyfile(file_of(service, "dear"), file_of(service, "cheap"))
    ran = await api.post("/v1/saved-calls/cheap/run")
    assert (ran.status_code, "holds the saved call 'dear' instead" in ran.text) == (422, True)
    listed = await saved(api)
    assert [one["name"] for one in listed.values() if not one["damaged"]] == ["dear"]
    assert len(listed) == 2
    assert (await save(api, "cheap")).json()["damaged"] is None
    for name in ("cheap", "dear"):
        assert (await api.delete(f"/v1/saved-calls/{name}")).status_code == 204


async def test_a_file_that_cannot_be_read_spoils_no_other_one(api: httpx.AsyncClient, service: Service) -> None:
    """As one of another user, or on a bad sector. Tests may run as root, who can read all files, but no loop."""
    for name in ("whole", "torn", "also-torn"):
        assert (await save(api, name)).is_success
    for name in ("torn", "also-torn"):
        file_of(service, name).unlink()
        file_of(service, name).symlink_to(file_of(service, name))
    got = await api.get("/v1/saved-calls/torn")
    assert "cannot be read" in got.json()["damaged"], got.text
    assert (await save(api, "torn")).json()["damaged"] is None
    assert (await api.delete("/v1/saved-calls/also-torn")).status_code == 204
    assert (await saved(api)).keys() == {"whole", "torn"}
    for name in ("torn", "whole"):
        assert (await api.delete(f"/v1/saved-calls/{name}")).status_code == 204


UNKNOWN_FORMS = {
    "bytes": Payload(metadata={"encoding": b"binary/plain"}, data=b"\0\1"),
    "another encoding": Payload(metadata={"encoding": b"binary/zlib"}, data=b"\0"),
    "no encoding": Payload(data=b"{}"),
    "half a protobuf": Payload(metadata={"encoding": b"json/protobuf", "messageType": b"no.Message"}, data=b"{"),
    "cut": Payload(metadata={"encoding": b"json/plain"}, data=b'{"tool":"dou'),
}
"""Payloads that no version of Outlast has written."""


async def tear_schedule(temporal: Client, schedule_id: str, arguments: list[Payload] | None = None) -> None:
    """Give the Temporal Schedule an argument that no version of Outlast has written."""
    (temporal_id,) = [one.id async for one in await temporal.list_schedules(f"OutlastSchedule = '{schedule_id}'")]

    def update(found: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule = found.description.schedule
        assert isinstance(schedule.action, ScheduleActionStartWorkflow)
        schedule.action.args = [{"of": "another form"}] if arguments is None else arguments
        return ScheduleUpdate(schedule=schedule)

    await temporal.get_schedule_handle(temporal_id).update(update)


async def test_a_damaged_schedule_is_listed_replaced_and_deleted(api: httpx.AsyncClient, temporal: Client) -> None:
    for name in ("whole", "torn"):
        await scheduled(api, name, call=CALL)
    await tear_schedule(temporal, "torn")
    listed = {one["id"]: one for one in (await api.get("/v1/schedules")).json()["schedules"]}
    assert listed["whole"]["damaged"] is None
    assert "Create it again" in listed["torn"]["damaged"]
    assert (await seen(api, "torn"))["damaged"]
    paused = await api.post("/v1/schedules/torn/pause")
    assert (paused.status_code, paused.json()["type"].rpartition(":")[2]) == (409, "schedule-damaged")

    assert (await scheduled(api, "torn", call=CALL, note="again")).get("damaged") is None
    assert (await seen(api, "torn"))["note"] == "again"
    await tear_schedule(temporal, "torn")
    for name in ("torn", "whole"):
        assert (await api.delete(f"/v1/schedules/{name}")).status_code == 204
    assert (await api.get("/v1/schedules/torn")).status_code == 404


@pytest.mark.parametrize("form", [*UNKNOWN_FORMS, "nothing", "no argument"])
async def test_a_schedule_in_any_form_is_listed_and_deleted(
    form: str, api: httpx.AsyncClient, temporal: Client
) -> None:
    await scheduled(api, "torn", call=CALL)
    nothing = Payload(metadata={"encoding": b"binary/null"})
    arguments = [] if form == "no argument" else [UNKNOWN_FORMS.get(form, nothing)]
    await tear_schedule(temporal, "torn", arguments)
    listed = (await api.get("/v1/schedules")).raise_for_status().json()["schedules"]
    assert [bool(one["damaged"]) for one in listed if one["id"] == "torn"] == [True]
    assert (await api.delete("/v1/schedules/torn")).status_code == 204


async def test_a_webhook_whose_seals_do_not_open_is_listed_mended_and_deleted(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    whole = await api.post("/v1/webhooks", json={"url": "https://93.184.216.34/whole"})
    assert whole.is_success, whole.text
    lost = SealedSecret(key_id="lost", ciphertext=base64.b64encode(bytes(40)).decode())
    moment = datetime.now(UTC)
    torn = WebhookSubscription(
        id="webhook-" + "0" * 24,
        events=(WebhookEventType.BATCH_PROGRESS,),
        endpoint=WebhookEndpoint(url=lost, secrets=(WebhookSecret(sealed=lost),)),
        created_at=moment,
        updated_at=moment,
    )
    made = CreateInput(subscription=torn, most=10)
    await Subscriptions(temporal, task_queue=TOOLS_TASK_QUEUE).change(LOCAL, CREATE_UPDATE, made)
    listed = {one["id"]: one for one in (await api.get("/v1/webhooks")).json()["webhooks"]}
    assert listed[whole.json()["id"]]["damaged"] is None
    assert "cannot be decrypted" in listed[torn.id]["damaged"]

    path = f"/v1/webhooks/{torn.id}"
    rotated = await api.post(f"{path}/rotate", json={})
    assert rotated.is_success, rotated.text
    changed = await api.patch(path, json={"url": "https://93.184.216.34/mended"})
    assert (changed.json()["url"], changed.json()["damaged"]) == ("https://93.184.216.34/mended", None)
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(f"/v1/webhooks/{whole.json()['id']}")).status_code == 204


@pytest.mark.parametrize("form", [None, *UNKNOWN_FORMS])
@pytest.mark.parametrize(
    ("workflow", "key", "path", "field"),
    [
        ("ToolCallWorkflow", memo.SUMMARY, "/v1/tasks", "tasks"),
        ("BatchWorkflow", memo.BATCH, "/v1/batches", "batches"),
        ("SessionWorkflow", memo.SESSION, "/v1/sessions", "sessions"),
    ],
)
async def test_a_record_in_temporal_that_cannot_be_read_spoils_no_list(
    workflow: str, key: str, path: str, field: str, form: str | None, api: httpx.AsyncClient, temporal: Client
) -> None:
    """The record itself is shown as damaged, too, and what runs is cancelled or ended as any other."""
    before = (await api.get(path)).json()[field]
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(search_attributes.CALLER, LOCAL),
            SearchAttributePair(search_attributes.TOOL, "double"),
            SearchAttributePair(search_attributes.SESSION, f"torn-{form}"),
        ]
    )
    handle = await temporal.start_workflow(
        workflow,
        id=f"torn-{field}-{form}",
        task_queue="nobody",
        memo={key: {"of": "another form"} if form is None else UNKNOWN_FORMS[form]},
        search_attributes=attributes,
        start_delay=timedelta(hours=1),
    )
    try:
        found = (await api.get(path)).raise_for_status().json()[field]
        (torn,) = [one for one in found if one["id"] in (f"torn-{field}-{form}", f"torn-{form}")]
        assert "damaged" in str(torn)
        assert len(found) == len(before) + 1
        if field != "sessions":
            shown = (await api.get(f"{path}/{torn['id']}")).raise_for_status().json()
            assert "damaged" in str(shown)
            assert (await api.post(f"{path}/{torn['id']}/cancel")).is_success
            assert (await handle.describe()).raw_description.workflow_extended_info.cancel_requested
    finally:
        await handle.terminate()


async def test_records_of_usage_that_are_lost_are_counted(api: httpx.AsyncClient, service: Service) -> None:
    folder = service.outputs / "usage" / "default" / scope_of(LOCAL) / datetime.now(UTC).date().isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "99999999.0123456789abcdef.jsonl").write_text('{"cut')
    report = (await api.get("/v1/usage")).raise_for_status().json()
    assert report["damaged"] >= 1
    (folder / "99999999.0123456789abcdef.jsonl").unlink()
    assert (await api.get("/v1/usage")).json()["damaged"] == 0


async def test_an_output_whose_manifest_is_damaged_can_be_deleted(api: httpx.AsyncClient, service: Service) -> None:
    arguments = {"actor": "outlast/sleeper", "input": {"seconds": 0, "rows": 500}}
    call = {"tool": "call-actor", "arguments": arguments}
    answer = await api.post("/v1/tasks", json=call, headers={"Prefer": "wait=100"})
    locator = answer.json()["result"]["locator"]
    (manifest,) = [path for path in (service.outputs / "manifests").rglob("*.json") if locator in path.read_text()]
    manifest.write_bytes(manifest.read_bytes()[:100])
    damaged = await api.get(f"/v1/outputs/{locator}")
    assert (damaged.is_success, "damaged" in damaged.text) == (False, True)
    assert (await api.delete(f"/v1/outputs/{locator}")).is_success
    assert "was deleted" in (await api.get(f"/v1/outputs/{locator}")).text
