"""The activities on outputs, as a worker runs them, against the sandbox platform."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from apify_client import ApifyClient
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import Caller, ErrorEnvelope
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.outputs.contracts import (
    OutputScope,
    RestoredOutput,
    RestoreOutputInput,
    StoreContentInput,
    StoreDatasetInput,
    StoredDataset,
    StoredOutput,
    StoreRecordInput,
)
from outlast.activities.outputs.reader import open_output
from tests.support.calls.stored_outputs import CALLER, SCOPE, bytes_of, keys_of, rows_of
from tests.support.stacks.sandbox import Sandbox

ROWS: list[dict[str, Any]] = [
    {"id": number, "url": f"https://example.com/{number}", "text": "Grüße " * (number % 40), "price": None}
    for number in range(3_000)
]


async def run(activity: Callable[[Any], Awaitable[Any]], order: Any, heartbeats: list[Any] | None = None) -> Any:
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: (heartbeats if heartbeats is not None else []).extend(details)
    return await environment.run(activity, order)


async def envelope_of(activity: Callable[[Any], Awaitable[Any]], order: Any) -> ErrorEnvelope:
    with pytest.raises(ApplicationError) as failed:
        await run(activity, order)
    return ErrorEnvelope.model_validate(failed.value.details[0])


def dataset_order(dataset_id: str, **options: Any) -> StoreDatasetInput:
    return StoreDatasetInput(caller=CALLER, scope=SCOPE, dataset_id=dataset_id, **options)


async def restored(activities: OutputActivities, locator: str, **options: Any) -> RestoredOutput:
    return await run(activities.restore_output, RestoreOutputInput(caller=CALLER, locator=locator, **options))


async def test_a_dataset_is_stored_whole_and_previewed(
    activities: OutputActivities, objects: OutputObjects, sandbox: Sandbox, platform: ApifyClient
) -> None:
    dataset_id = sandbox.new_dataset(ROWS)
    stored: StoredDataset = await run(activities.store_dataset, dataset_order(dataset_id))
    assert (stored.output.kind, stored.output.count) == ("rows", len(ROWS))
    reader = await open_output(objects, stored.output.locator, CALLER.id)
    assert [json.loads(row) for row in await rows_of(reader)] == ROWS
    assert {field.name: field.fill_rate for field in reader.manifest.fields} == {
        "id": 1,
        "url": 1,
        "text": 1,
        "price": 0,
    }
    preview = stored.preview
    assert preview.total == len(ROWS)
    assert preview.items[0] == ROWS[0]
    assert preview.fields == ("id", "url", "text", "price")
    assert preview.size_bytes <= 1_024
    assert preview.rows_cut == preview.limit - len(preview.items)


async def test_a_dataset_is_stored_once(activities: OutputActivities, objects: OutputObjects, sandbox: Sandbox) -> None:
    order = dataset_order(sandbox.new_dataset(ROWS))
    first: StoredDataset = await run(activities.store_dataset, order)
    keys = await keys_of(objects)
    assert await run(activities.store_dataset, order) == first
    assert await keys_of(objects) == keys


async def test_an_empty_dataset_is_an_output_without_rows(activities: OutputActivities, platform: ApifyClient) -> None:
    dataset = platform.datasets().get_or_create()
    stored: StoredDataset = await run(activities.store_dataset, dataset_order(dataset.id))
    assert (stored.output.count, stored.preview.items, stored.preview.total) == (0, (), 0)
    assert (await restored(activities, stored.output.locator)).items == ()


async def test_an_unknown_dataset_is_not_found(activities: OutputActivities) -> None:
    envelope = await envelope_of(activities.store_dataset, dataset_order("nothingHasThisId1"))
    assert (envelope.category, envelope.retryable) == ("not_found", False)
    assert "nothingHasThisId1" in envelope.message


async def test_a_dataset_that_vanishes_while_it_is_stored_is_not_found(
    activities: OutputActivities, sandbox: Sandbox
) -> None:
    dataset_id = sandbox.new_dataset(ROWS)
    sandbox.order_fault("status", path=f"{dataset_id}/items", after=1, status=404, type="record-not-found")
    envelope = await envelope_of(activities.store_dataset, dataset_order(dataset_id))
    assert envelope.category == "not_found"


@pytest.mark.parametrize("action", ["truncate", "drop_after"])
async def test_a_page_that_breaks_off_is_worth_a_retry_and_loses_nothing(
    activities: OutputActivities, objects: OutputObjects, sandbox: Sandbox, action: str
) -> None:
    dataset_id = sandbox.new_dataset(ROWS)
    sandbox.order_fault(action, path=f"{dataset_id}/items", after=1, times=1)
    order = dataset_order(dataset_id)
    envelope = await envelope_of(activities.store_dataset, order)
    assert (envelope.category, envelope.retryable) == ("network", True)
    stored: StoredDataset = await run(activities.store_dataset, order)
    reader = await open_output(objects, stored.output.locator, CALLER.id)
    assert [json.loads(row) for row in await rows_of(reader)] == ROWS


@pytest.mark.parametrize(
    ("content_type", "content", "kind"),
    [
        ("application/json; charset=utf-8", json.dumps({"a": ["ü"] * 900}).encode(), "json"),
        ("text/html", b"<title>Hello</title>" + b"<p>x</p>" * 900, "text"),
        ("image/png", bytes(range(256)) * 40, "binary"),
        ("text/plain", b"", "text"),
    ],
)
async def test_a_record_is_stored_as_it_is(
    activities: OutputActivities,
    objects: OutputObjects,
    platform: ApifyClient,
    content_type: str,
    content: bytes,
    kind: str,
) -> None:
    store = platform.key_value_stores().get_or_create()
    platform.key_value_store(store.id).set_record("OUTPUT", content, content_type=content_type)
    order = StoreRecordInput(caller=CALLER, scope=SCOPE, store_id=store.id, key="OUTPUT")
    stored: StoredOutput = await run(activities.store_record, order)
    assert (stored.kind, stored.size_bytes) == (kind, len(content))
    assert await bytes_of(await open_output(objects, stored.locator, CALLER.id)) == content


async def test_an_unknown_record_is_not_found(activities: OutputActivities, platform: ApifyClient) -> None:
    store = platform.key_value_stores().get_or_create()
    for store_id, key in ((store.id, "NONE"), ("nothingHasThisId1", "OUTPUT")):
        order = StoreRecordInput(caller=CALLER, scope=SCOPE, store_id=store_id, key=key)
        assert (await envelope_of(activities.store_record, order)).category == "not_found"


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("rows", {"value": [{"a": 1}, {"a": "ü"}, 2**70]}, {"items": ({"a": 1}, {"a": "ü"}, 2.0**70)}),
        ("rows", {"text": '{"a": 1}\n{"a": 2}'}, {"items": ({"a": 1}, {"a": 2})}),
        ("json", {"value": {"a": [None]}}, {"value": {"a": [None]}}),
        ("text", {"text": "Grüße"}, {"text": "Grüße"}),
        ("binary", {"blob_base64": "AAEC"}, {"blob_base64": "AAEC"}),
    ],
)
async def test_what_a_tool_answered_is_stored_and_restored(
    activities: OutputActivities, kind: Any, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    order = StoreContentInput(scope=SCOPE, kind=kind, content_type="text/plain", **given)
    stored: StoredOutput = await run(activities.store_content, order)
    found = await restored(activities, stored.locator)
    assert found.model_dump(include=set(expected)) == expected
    assert (found.kind, found.next_offset) == (kind, None)
    assert await run(activities.store_content, order) == stored


@pytest.mark.parametrize(
    "given", [{"kind": "rows", "value": 5}, {"kind": "text"}, {"kind": "binary", "blob_base64": "!"}]
)
async def test_content_that_is_not_what_it_is_said_to_be_is_refused(
    activities: OutputActivities, given: dict[str, Any]
) -> None:
    order = StoreContentInput(scope=SCOPE, content_type="text/plain", **given)
    assert (await envelope_of(activities.store_content, order)).category == "validation"


async def test_every_kind_of_locator_that_leads_nowhere_has_its_own_error(
    activities: OutputActivities, objects: OutputObjects
) -> None:
    order = StoreContentInput(scope=SCOPE, kind="text", content_type="text/plain", text="x" * 5_000)
    stored: StoredOutput = await run(activities.store_content, order)

    async def refused(locator: str, caller: str = CALLER.id) -> ErrorEnvelope:
        wanted = RestoreOutputInput(caller=Caller(id=caller), locator=locator)
        return await envelope_of(activities.restore_output, wanted)

    assert (await refused("out_nonsense")).category == "validation"
    assert (await refused(stored.locator, "caller-2")).category == "permission"
    (part,) = await keys_of(objects, "parts")
    await objects.put(part, b"something else")
    damaged = await refused(stored.locator)
    assert (damaged.category, "damaged" in damaged.message) == ("filesystem", True)
    await objects.delete(await keys_of(objects, "manifests"))
    assert (await refused(stored.locator)).category == "not_found"


async def test_outputs_of_different_calls_do_not_meet(activities: OutputActivities, objects: OutputObjects) -> None:
    scopes = [
        SCOPE,
        *(SCOPE.model_copy(update={name: "other"}) for name in ("session_id", "message_id", "tool_call_id")),
    ]
    locators: set[str] = set()
    for scope in [*scopes, OutputScope(caller_id=CALLER.id, tool_call_id="call-1", task_id="task-1")]:
        order = StoreContentInput(scope=scope, kind="text", content_type="text/plain", text="the same")
        locators.add((await run(activities.store_content, order)).locator)
    assert len(locators) == 5
    assert len(await keys_of(objects, "manifests")) == 5
