"""Puts the rows back into an outcome that refers to them: they stand once in its history, in an activity's result."""

from collections.abc import AsyncIterator, Sequence

from pydantic import JsonValue
from pydantic_core import from_json
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from outlast.activities.outputs.contracts import StoredDataset
from outlast.activities.runs.contracts import EndedRun
from outlast.activities.storages.contracts import DatasetPage
from outlast.api.temporal.definitions import FETCH_DATASET_ITEMS, STORE_DATASET, WAIT_FOR_RUN
from outlast.workflows.contracts.row_text import digest_of_rows, rows_as_lines
from outlast.workflows.contracts.tool_calls import ToolOutcome

_RESULTS = {WAIT_FOR_RUN: EndedRun, FETCH_DATASET_ITEMS: DatasetPage, STORE_DATASET: StoredDataset}
"""The activities that return rows of a run."""
_LOCAL_ACTIVITY = "core_local_activity"


async def whole_outcome(client: Client, task_id: str, outcome: ToolOutcome) -> ToolOutcome:
    """`outcome` with its rows, which are found by their digest.

    Raises `RPCError` when Temporal does not answer or has removed the history, and `LookupError` for a history without
    the rows, which no worker writes.
    """
    if outcome.rows is None:
        return outcome
    async for items in _rows_in(client, task_id):
        if digest_of_rows(rows_as_lines(items)) == outcome.rows.sha256:
            return outcome.with_rows(items)
    raise LookupError(f"The history of task {task_id} lacks the rows that its result refers to.")


async def _rows_in(client: Client, task_id: str) -> AsyncIterator[Sequence[JsonValue]]:
    kinds: dict[int, type[EndedRun | DatasetPage | StoredDataset]] = {}
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        scheduled, completed = (
            event.activity_task_scheduled_event_attributes,
            event.activity_task_completed_event_attributes,
        )
        if (kind := _RESULTS.get(scheduled.activity_type.name)) is not None:
            kinds[event.event_id] = kind
        if (kind := kinds.get(completed.scheduled_event_id)) is not None:
            [result] = await client.data_converter.decode(completed.result.payloads, [kind])
            yield _rows_of(result)
        if (kind := _RESULTS.get(_local_activity_of(event))) is not None:
            payloads = event.marker_recorded_event_attributes.details["result"].payloads
            [result] = await client.data_converter.decode(payloads, [kind])
            yield _rows_of(result)


def _local_activity_of(event: HistoryEvent) -> str:
    """The type of the local activity whose result the event records; empty for any other event."""
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != _LOCAL_ACTIVITY or "result" not in marker.details:
        return ""
    # Temporal's SDK writes this payload by itself, past every codec.
    return from_json(marker.details["data"].payloads[0].data)["activity_type"]


def _rows_of(result: EndedRun | DatasetPage | StoredDataset) -> Sequence[JsonValue]:
    match result:
        case StoredDataset(preview=page) | EndedRun(rows=DatasetPage() as page) | (DatasetPage() as page):
            return page.items
        case _:
            return ()
