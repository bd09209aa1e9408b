"""Puts the rows back into an outcome that refers to them: they stand once in its history, in an activity's result."""

from collections.abc import AsyncIterator, Sequence

from pydantic import JsonValue
from temporalio.client import Client

from outlast.activities.outputs.contracts import StoredDataset
from outlast.activities.runs.contracts import EndedRun
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.stuck_tasks.histories import ActivityResults
from outlast.api.temporal.temporal_names import FETCH_DATASET_ITEMS, STORE_DATASET, WAIT_FOR_RUN
from outlast.workflows.contracts.tool_calls import ToolOutcome, digest_of_rows, rows_as_lines

_RESULTS = {WAIT_FOR_RUN: EndedRun, FETCH_DATASET_ITEMS: DatasetPage, STORE_DATASET: StoredDataset}
"""The activities that return rows of a run."""


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
    results = ActivityResults()
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        activity, payloads = results.read(event)
        if (kind := _RESULTS.get(activity)) is not None:
            [result] = await client.data_converter.decode(payloads, [kind])
            yield _rows_of(result)


def _rows_of(result: EndedRun | DatasetPage | StoredDataset) -> Sequence[JsonValue]:
    match result:
        case StoredDataset(preview=page) | EndedRun(rows=DatasetPage() as page) | (DatasetPage() as page):
            return page.items
        case _:
            return ()
