"""Recorded resolutions of tasks whose outcome was unknown, and what they change about a task and its result."""

from dataclasses import dataclass

from pydantic_core import to_json
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.contracts.tasks import Task
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import TaskResolution, TaskStatus, TextContent, ToolResult
from outlast.workflows.resolution import TaskResolutionWorkflow

RESOLUTION_META = "outlast/resolution"
"""Key in an answer's meta: who resolved the task, when, and how."""


def is_outcome_unknown(result: ToolResult) -> bool:
    """Return whether the tool may have been executed although the call failed."""
    return result.error is not None and result.error.category is ErrorCategory.OUTCOME_UNKNOWN


@dataclass(frozen=True)
class RecordedResolutions:
    """Reads and records resolutions. Needs no worker."""

    client: Client

    async def of(self, task_id: str) -> TaskResolution | None:
        """The resolution of a task; None without one. Raises `RPCError`."""
        try:
            described = await self.client.get_workflow_handle(_workflow_id(task_id)).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        return await described.memo_value(memo.RESOLUTION, None, type_hint=TaskResolution)

    async def record(self, task_id: str, resolution: TaskResolution) -> TaskResolution | None:
        """Record the resolution, unless there is one. Returns the one that holds. Raises `RPCError`."""
        try:
            await self.client.start_workflow(
                TaskResolutionWorkflow.run,
                resolution,
                id=_workflow_id(task_id),
                task_queue=TOOLS_TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo={memo.RESOLUTION: resolution},
                static_summary=f"{task_id} was resolved: {resolution.outcome}",
            )
        except WorkflowAlreadyStartedError:
            return await self.of(task_id)
        return resolution

    async def apply_to(self, task: Task) -> Task:
        """`task`, whose outcome was unknown, with its resolution. Raises `RPCError`."""
        resolution = await self.of(task.id)
        if resolution is None:
            return task
        status = TaskStatus.COMPLETED if resolution.outcome == "done" else task.status
        error = task.error if resolution.outcome != "done" else None
        changes = {"status": status, "status_message": _text_of(resolution), "resolution": resolution, "error": error}
        return task.model_copy(update=changes)

    async def result_of(self, task_id: str, result: ToolResult) -> ToolResult:
        """`result` of a task, or what its resolution says if its outcome was unknown. Raises `RPCError`."""
        if not is_outcome_unknown(result) or (resolution := await self.of(task_id)) is None:
            return result
        assert result.error is not None
        meta = {**result.meta, RESOLUTION_META: resolution.model_dump(mode="json", exclude={"result"})}
        if resolution.outcome != "done":
            error = _error_of(resolution, result.error)
            return ToolResult.failed(error).model_copy(update={"meta": meta})
        value = resolution.result
        text = value if isinstance(value, str) else _text_of(resolution) if value is None else to_json(value).decode()
        structured = value if isinstance(value, dict) else {"result": value} if value is not None else None
        return ToolResult(content=(TextContent(text=text),), structured=structured, meta=meta)


def _error_of(resolution: TaskResolution, unknown: ErrorEnvelope) -> ErrorEnvelope:
    changes = {"message": _text_of(resolution), "hint": None, "category": ErrorCategory.UNKNOWN}
    if resolution.outcome == "not_done":
        hint = "The same call may be made again."
        return unknown.model_copy(update={**changes, "hint": hint, "retryable": True})
    return unknown.model_copy(update={**changes, "retryable": False})


def _text_of(resolution: TaskResolution) -> str:
    match resolution.outcome:
        case "done":
            found = f"The action was executed, as {resolution.resolved_by} found out."
        case "not_done":
            found = f"The action was not executed, as {resolution.resolved_by} found out."
        case "retry":
            found = f"Called again as task {resolution.task_id}."
    return f"{found} Note: {resolution.note}" if resolution.note else found


def _workflow_id(task_id: str) -> str:
    return f"resolution-{task_id}"
