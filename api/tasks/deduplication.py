"""Deduplication of identical calls: they share one task, whose id is their digest and a number.

A task that failed, or whose answer is too old, is followed by the next number. The cached or listed newest number may
be out of date; then Temporal refuses to start a used number.
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
from outlast.workflows.contracts import tool_calls as calls
from outlast.workflows.contracts.search_attributes import query_of_equal_calls
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
    """The task's id by its idempotency key; the same key gives the same task, whatever its outcome."""


class Tasks(Protocol):
    """The tasks of a caller, as far as reuse needs them."""

    async def described(self, caller: Caller, task_id: str) -> WorkflowExecutionDescription:
        """The task's workflow. Raises `TaskNotFound`."""
        ...

    async def viewed(self, description: WorkflowExecutionDescription) -> Task:
        """The task that it is."""
        ...

    async def result_of(self, description: WorkflowExecutionDescription) -> calls.ToolResult | None:
        """The answer, if there is one."""
        ...


@dataclass(eq=False)
class Deduplication:
    """Finds the task that answers a call, or starts the next one."""

    client: Client
    outputs: StoredOutputs
    limits: CallerLimits

    def __post_init__(self) -> None:
        self._newest = LRUCache[str, int](_REMEMBERED)
        self._starting = WeakValueDictionary[str, asyncio.Lock]()

    async def meet(self, call: ReusableCall, tasks: Tasks, start: Callable[[str], Awaitable[Task]]) -> Task:
        """The task that answers the call: an existing one with `reused` set, or the one that `start` starts by id.

        Raises what `start` raises, except `WorkflowAlreadyStartedError`.
        """
        digest = call.reusable.digest
        # Identical calls of this process wait here for the first one, not in Temporal.
        turn = self._starting.setdefault(digest, asyncio.Lock())
        async with turn:
            number = self._newest.get(digest) or await self._listed(call.caller, digest)
            for _ in range(_TRIES):
                found = await self._found(call, tasks, calls.same_task_id(digest, number)) if number else None
                if found is not None:
                    self._newest[digest] = number
                    return found
                try:
                    task = await start(calls.same_task_id(digest, number + 1))
                except WorkflowAlreadyStartedError:
                    number += 1
                    continue
                self._newest[digest] = number + 1
                return task
        message = "Identical calls start faster than one of them can be found; call again."
        raise TooManyRequests(message, retry_after_seconds=1)

    async def _listed(self, caller: Caller, digest: str) -> int:
        """The newest number in Temporal's visibility; 0 if there is none."""
        async with self.limits.awaited_slot(caller.id, "concurrent_lists"):
            with temporal_errors():
                found = self.client.list_workflows(query_of_equal_calls(digest), limit=_LISTED, page_size=_LISTED)
                numbers = [calls.same_task_number(execution.id) async for execution in found]
        return max(numbers, default=0)

    async def _found(self, call: ReusableCall, tasks: Tasks, task_id: str) -> Task | None:
        """The task, if it answers the call."""
        with suppress(TaskNotFound):
            description = await tasks.described(call.caller, task_id)
            task = await tasks.viewed(description)
            if call.request_key is not None:
                with temporal_errors():
                    summary = await memo_model(description, memo.SUMMARY, calls.TaskSummary)
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
        if task.status is not calls.TaskStatus.COMPLETED or _age(task) > limit:
            return False
        result = await tasks.result_of(description)
        if result is None or result.is_error:
            return False
        if result.locator is None:
            return True
        try:
            await self.outputs.describe(caller, result.locator)
        except OutputRefusal:
            return False  # It has expired, or somebody deleted it.
        return True


def with_origin_note(result: calls.ToolResult, reused: Reused) -> calls.ToolResult:
    """`result` with a last line about its age; unchanged if it is the content of another server."""
    if result.raw_content is not None:
        return result
    age = describe_duration(timedelta(seconds=reused.age_seconds))
    note = "This is the answer of an identical call." if reused.joined else f"This answer is {age} old."
    return result.model_copy(update={"content": (*result.content, calls.TextContent(text=note))})


def _age(task: Task) -> timedelta:
    """The time since it was answered; zero while it runs."""
    answered_at = task.finished_at or (task.created_at if task.is_final else None)
    return max(datetime.now(UTC) - answered_at, timedelta(0)) if answered_at else timedelta(0)


def _reused(task: Task) -> Reused:
    return Reused(joined=not task.is_final, age_seconds=round(_age(task).total_seconds(), 3))
