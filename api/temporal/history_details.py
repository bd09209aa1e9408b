"""Details of a task that its description lacks, read from its history: its start, its result, its rows, and its error.

Entries of a history never change, so the details are cached.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache
from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.converter import DataConverter

from outlast.activities.batches.activities import BatchActivities
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.mcp_servers.activities import McpActorActivities
from outlast.activities.mcp_servers.servers import McpServerActivities
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.outputs.contracts import StoredDataset
from outlast.activities.platform_requests.activities import RunWatchActivities
from outlast.activities.runs.activities import RunActivities
from outlast.activities.runs.contracts import EndedRun, ResurrectResult, RunState
from outlast.activities.runs.resurrection import RunResurrections
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.storages.datasets import DatasetActivities
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.activities.stuck_tasks.histories import ActivityResults
from outlast.api.errors import TaskDataLost, TaskDataUnavailable, TaskNotFound
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.resolutions import RecordedResolutions, is_outcome_unknown
from outlast.contracts.tasks import Task, TaskFailure
from outlast.worker.payloads import UNREADABLE
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.failed_tasks import outcome_of
from outlast.workflows.contracts.tool_calls import (
    DEFECT_META,
    TaskStatus,
    ToolCall,
    ToolOutcome,
    digest_of_rows,
    rows_as_lines,
)
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.framework.plain_functions import RUN_PLAIN_FUNCTION


def _name_of(definition: Callable[..., Any] | type) -> str:
    """The name that Temporal uses: definitions set none, so it is the name in the code."""
    return definition.__name__


SESSION_WORKFLOW: Final = _name_of(SessionWorkflow)
TASK_WORKFLOW: Final = _name_of(ToolCallWorkflow)
START_RUN: Final = _name_of(RunActivities.start_run)
WAIT_FOR_RUN: Final = _name_of(RunActivities.wait_for_run)
RESURRECT_RUN: Final = _name_of(RunResurrections.resurrect_run)
ABORT_RUN: Final = _name_of(RunActivities.abort_run)
CALL_MCP_TOOL: Final = _name_of(McpActorActivities.call_mcp_tool)
CALL_SERVER_TOOL: Final = _name_of(McpServerActivities.call_server_tool)
PLAIN_FUNCTION: Final = RUN_PLAIN_FUNCTION
WATCH_RUN: Final = _name_of(RunWatchActivities.watch_run)
FETCH_DATASET_ITEMS: Final = _name_of(DatasetActivities.fetch_dataset_items)
STORE_DATASET: Final = _name_of(OutputActivities.store_dataset)
STORE_RECORD: Final = _name_of(OutputActivities.store_record)
SUBMIT_INPUT: Final = _name_of(ToolCallWorkflow.submit_input)
STORE_CONTENT: Final = _name_of(OutputActivities.store_content)
CARRY_ON_BATCH: Final = _name_of(BatchActivities.carry_on_batch)


_RESULTS = {WAIT_FOR_RUN: EndedRun, FETCH_DATASET_ITEMS: DatasetPage, STORE_DATASET: StoredDataset}
"""The activities that return rows of a run."""
_KEPT = 2_000
_AT_ONCE = 20
"""Histories that one list reads concurrently."""
_GONE = TaskNotFound("Temporal has removed the history of the task.")


@dataclass(frozen=True)
class _End:
    """The facts of a task in the result of its workflow."""

    message: str | None
    run: RunState | None
    cost_usd: float | None
    error: ErrorEnvelope | None
    is_defect: bool
    is_unknown: bool
    """Whether the tool may have been executed although the call failed."""


class HistoryDetails:
    """Completes descriptions of tasks, unless their history is gone or unreadable. Raises `TemporalUnavailable`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resolutions = RecordedResolutions(client)
        self._ends: LRUCache[str, _End] = LRUCache(_KEPT)
        self._runs: LRUCache[tuple[str, str], RunState] = LRUCache(_KEPT)

    def learn(self, run_id: str | None, outcome: ToolOutcome) -> None:
        """Cache the end of a workflow."""
        if run_id is not None:
            result = outcome.result
            self._ends[run_id] = _End(
                result.headline,
                outcome.run,
                outcome.cost_usd,
                error=result.error,
                is_defect=DEFECT_META in result.meta,
                is_unknown=is_outcome_unknown(result),
            )

    async def completed(self, execution: WorkflowExecution, task: Task) -> Task:
        """`task` with the details from the history of `execution`."""
        with suppress(TaskNotFound, TaskDataLost, TaskDataUnavailable), temporal_errors(missing=_GONE):
            if execution.status in (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED):
                end = self._ends.get(execution.run_id) or await self._read_end(execution)
                if end is not None:
                    return await self._with_end(end, task)
            return await self._with_run(execution, await self._with_error(execution, task))
        return task

    async def all_completed(self, found: Iterable[tuple[WorkflowExecution, Task]]) -> list[Task]:
        """Tasks of a list. Those that completed without a run are not read, because their answers may be large."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(execution: WorkflowExecution, task: Task) -> Task:
            if task.executor == "none" and task.status is TaskStatus.COMPLETED:
                return task
            async with turns:
                return await self.completed(execution, task)

        return list(await asyncio.gather(*(one(execution, task) for execution, task in found)))

    async def _with_end(self, end: _End, task: Task) -> Task:
        facts = {"status_message": task.status_message or end.message, "run": end.run, "cost_usd": end.cost_usd}
        task = task.model_copy(update={**facts, "error": failure_of(task, end.error), "is_defect": end.is_defect})
        return await self._resolutions.apply_to(task) if end.is_unknown else task

    async def _with_error(self, execution: WorkflowExecution, task: Task) -> Task:
        """The task with the reason, if it was ended because it was stuck."""
        if execution.status is not WorkflowExecutionStatus.TERMINATED or task.answered:
            return task
        error = await error_of_stuck(self._client, execution)
        if error is None:
            return task
        status = TaskStatus.CANCELLED if was_cancelled(error) else TaskStatus.FAILED
        task = task.model_copy(update={"status": status, "status_message": error.message})
        return task.model_copy(update={"error": failure_of(task, error)})

    async def _read_end(self, execution: WorkflowExecution) -> _End | None:
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        close = WorkflowHistoryEventFilterType.CLOSE_EVENT
        async for event in handle.fetch_history_events(event_filter_type=close):
            outcome = await outcome_of_end(self._client.data_converter, event)
            if outcome is not None:
                self.learn(execution.run_id, outcome)
        return self._ends.get(execution.run_id)

    async def _with_run(self, execution: WorkflowExecution, task: Task) -> Task:
        run_id = execution.typed_search_attributes.get(search_attributes.RUN_ID)
        if task.run is not None or run_id is None:
            return task
        run = self._runs.get((execution.run_id, run_id)) or await self._read_run(execution, run_id)
        return task.model_copy(update={"run": run})

    async def _read_run(self, execution: WorkflowExecution, run_id: str) -> RunState | None:
        results = ActivityResults()
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        async for event in handle.fetch_history_events():
            activity, payloads = results.read(event)
            if activity == START_RUN:
                [run] = await self._client.data_converter.decode(payloads, [RunState])
            elif activity == RESURRECT_RUN:
                [result] = await self._client.data_converter.decode(payloads, [ResurrectResult])
                run = result.run
            else:
                continue
            if run.run_id == run_id:
                self._runs[execution.run_id, run_id] = run
                return run
        return None


async def outcome_of_end(converter: DataConverter, event: HistoryEvent) -> ToolOutcome | None:
    """The outcome of a task in the last event of its workflow; None for a workflow that did not end by itself."""
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
            payloads = event.workflow_execution_completed_event_attributes.result.payloads
            [outcome] = await converter.decode(payloads, [ToolOutcome])
            return outcome
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            return outcome_of(await converter.decode_failure(event.workflow_execution_failed_event_attributes.failure))
        case _:
            return None


def failure_of(task: Task, error: ErrorEnvelope | None) -> TaskFailure | None:
    """The failure of a task that ended with `error`; None for one that did not fail."""
    return TaskFailure.of(error) if error is not None and task.status is TaskStatus.FAILED else None


async def recorded_call(client: Client, execution: WorkflowExecution) -> ToolCall:
    """The call of a task as its history has it: secrets are encrypted. Raises `RPCError`."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    first = await anext(handle.fetch_history_events(page_size=1))
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    [call] = await client.data_converter.decode(payloads, [ToolCall])
    return call


async def error_of_stuck(client: Client, execution: WorkflowExecution) -> ErrorEnvelope | None:
    """The error of a workflow that was ended because it was stuck; None for any other. Raises `RPCError`."""
    if execution.status is not WorkflowExecutionStatus.TERMINATED:
        return None
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    close = WorkflowHistoryEventFilterType.CLOSE_EVENT
    async for event in handle.fetch_history_events(event_filter_type=close):
        details = event.workflow_execution_terminated_event_attributes.details.payloads
        try:
            return error_of_end(await client.data_converter.decode(details))
        except UNREADABLE:
            return None
    return None


def was_cancelled(error: ErrorEnvelope) -> bool:
    """Return whether the workflow was ended because it could not be cancelled otherwise."""
    return error.category is ErrorCategory.CANCELLED


async def whole_outcome(client: Client, task_id: str, outcome: ToolOutcome) -> ToolOutcome:
    """`outcome` with its rows, found by their digest. Raises `RPCError`, and `LookupError` for missing rows."""
    if outcome.rows is None:
        return outcome
    results = ActivityResults()
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        activity, payloads = results.read(event)
        if (kind := _RESULTS.get(activity)) is not None:
            [result] = await client.data_converter.decode(payloads, [kind])
            items = _rows_of(result)
            if digest_of_rows(rows_as_lines(items)) == outcome.rows.sha256:
                return outcome.with_rows(items)
    raise LookupError(f"The history of task {task_id} lacks the rows that its result refers to.")


def _rows_of(result: EndedRun | DatasetPage | StoredDataset) -> Sequence[JsonValue]:
    match result:
        case StoredDataset(preview=page) | EndedRun(rows=DatasetPage() as page) | (DatasetPage() as page):
            return page.items
        case _:
            return ()
