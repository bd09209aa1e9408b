"""Deduplication of identical calls: they share one task at a time.

The id of the task is their digest and a number, and Temporal starts an id once.

A task that failed, or whose answer is too old, is followed by the next number. The newest number is remembered by this
process, or comes from Temporal's visibility. Both may lag behind; then the start of a used number fails.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from cachetools import LRUCache
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.errors import OutputRefusal, TaskNotFound, TooManyRequests
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.option_rules import Reusable
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_view import memo_model
from outlast.contracts.tasks import Reused, Task
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.search_attributes import query_of_equal_calls
from outlast.workflows.contracts.tool_calls import (
    TaskStatus,
    TaskSummary,
    TextContent,
    ToolResult,
    same_task_id,
    same_task_number,
)
from outlast.workflows.tools.answers import describe_duration

_REMEMBERED = 10_000
_TRIES = 50
_LISTED = 20


@dataclass(frozen=True)
class ReusableCall:
    """A call that may be answered by an identical one."""

    caller: Caller
    reusable: Reusable
    request_key: str | None
    """The task's id by its idempotency key; the same key meets the same task, however that has ended."""


class Tasks(Protocol):
    """The tasks of a caller, as far as reuse needs them."""

    async def described(self, caller: Caller, task_id: str) -> WorkflowExecutionDescription:
        """The task's workflow. Raises `TaskNotFound`."""
        ...

    async def viewed(self, description: WorkflowExecutionDescription) -> Task:
        """The task that it is."""
        ...

    async def result_of(self, description: WorkflowExecutionDescription) -> ToolResult | None:
        """The answer, if there is one."""
        ...


class Deduplication:
    """Finds the task that answers a call, or starts the next one."""

    def __init__(self, client: Client, outputs: StoredOutputs, limits: CallerLimits) -> None:
        """Look for tasks with `client`, as many at a time as `limits` say of lists.

        Stored answers have to be in `outputs` still.
        """
        self._client = client
        self._outputs = outputs
        self._limits = limits
        self._newest = LRUCache[str, int](_REMEMBERED)
        self._starting = WeakValueDictionary[str, asyncio.Lock]()

    async def meet(self, call: ReusableCall, tasks: Tasks, start: Callable[[str], Awaitable[Task]]) -> Task:
        """The task that answers the call: one that is there, with `reused` set, or the one that `start` starts by its
        id.

        Raises what `start` raises, but for `WorkflowAlreadyStartedError`.
        """
        digest = call.reusable.digest
        # Those of this process wait here for the first, not in Temporal.
        turn = self._starting.setdefault(digest, asyncio.Lock())
        async with turn:
            number = self._newest.get(digest) or await self._listed(call.caller, digest)
            for _ in range(_TRIES):
                met = await self._met(call, tasks, same_task_id(digest, number)) if number else None
                if met is not None:
                    self._newest[digest] = number
                    return met
                try:
                    task = await start(same_task_id(digest, number + 1))
                except WorkflowAlreadyStartedError:
                    number += 1
                    continue
                self._newest[digest] = number + 1
                return task
        raise TooManyRequests(
            "Equal calls start faster than one of them can be found; call again.", retry_after_seconds=1
        )

    async def _listed(self, caller: Caller, digest: str) -> int:
        """The newest number that visibility knows; 0 for none."""
        async with self._limits.awaited_slot(caller.id, "concurrent_lists"):
            with temporal_errors():
                found = self._client.list_workflows(query_of_equal_calls(digest), limit=_LISTED, page_size=_LISTED)
                numbers = [same_task_number(execution.id) async for execution in found]
        return max(numbers, default=0)

    async def _met(self, call: ReusableCall, tasks: Tasks, task_id: str) -> Task | None:
        """The task, if it answers the call."""
        with suppress(TaskNotFound):
            description = await tasks.described(call.caller, task_id)
            task = await tasks.viewed(description)
            if call.request_key is not None:
                with temporal_errors():
                    summary = await memo_model(description, memo.SUMMARY, TaskSummary)
                if summary is not None and summary.request_key == call.request_key:
                    return task
            limit = call.reusable.max_age
            if limit is not None and await self._answers(call.caller, task, limit, tasks, description):
                return task.model_copy(update={"reused": _reused(task)})
        return None

    async def _answers(
        self, caller: Caller, task: Task, limit: timedelta, tasks: Tasks, description: WorkflowExecutionDescription
    ) -> bool:
        if not task.is_final:
            return not task.is_cancelling
        if task.status is not TaskStatus.COMPLETED or _age(task) > limit:
            return False
        result = await tasks.result_of(description)
        if result is None or result.is_error:
            return False
        if result.locator is None:
            return True
        try:
            await self._outputs.describe(caller, result.locator)
        except OutputRefusal:
            return False  # It has expired, or somebody deleted it.
        return True


def with_origin_note(result: ToolResult, reused: Reused) -> ToolResult:
    """`result` with a last line about its age; as it is where another server's content is passed on unchanged."""
    if result.raw_content is not None:
        return result
    age = describe_duration(timedelta(seconds=reused.age_seconds))
    note = "An equal call was under way: this is its answer." if reused.joined else f"This answer is {age} old."
    return result.model_copy(update={"content": (*result.content, TextContent(text=note))})


def _age(task: Task) -> timedelta:
    """How long ago it was answered: zero while it runs."""
    answered_at = task.finished_at or (task.created_at if task.is_final else None)
    return max(datetime.now(UTC) - answered_at, timedelta(0)) if answered_at else timedelta(0)


def _reused(task: Task) -> Reused:
    return Reused(joined=not task.is_final, age_seconds=round(_age(task).total_seconds(), 3))
