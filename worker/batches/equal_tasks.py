"""Items that equal calls may answer: the task of one of them, or the next one of their digest.

The rules are those of single calls, see docs/decisions/0027-reuse-of-answers.md and `outlast.api.tasks.reuse`:
Temporal starts an id once, so that of all who try the same number one wins. What an item has started itself it knows
again by its key, whatever has become of it: nothing is paid twice when a worker dies.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from cachetools import LRUCache
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches.contracts import EqualCalls, MetTask, ReusedAnswer
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.outputs.manifest import parse_locator
from outlast.activities.outputs.reader import load_manifest
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.tool_calls import TaskSummary, same_task_id, same_task_number
from outlast.workflows.tool_call import ToolCallWorkflow

_REMEMBERED = 10_000
_TRIES = 50
_LISTED = 20
_LOOKED_BACK = 5
"""Numbers before the newest one among which an item's own task is looked for: others may have started again since."""


class EqualTasks:
    """Finds the tasks of equal calls. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, objects: OutputObjects) -> None:
        """Look for tasks with `client`. Stored answers have to be in `objects` still."""
        self._client = client
        self._objects = objects
        self._newest = LRUCache[str, int](_REMEMBERED)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def meet(
        self, caller_id: str, equal: EqualCalls, key: str, start: Callable[[str], Awaitable[object]]
    ) -> MetTask:
        """The task that answers the item of this key: one that is there, or the one that `start` starts by its id.

        Raises what `start` raises, but for `WorkflowAlreadyStartedError`; and `ValueError` when equal calls start
        faster than one of them can be found.
        """
        turn = self._turns.setdefault(equal.digest, asyncio.Lock())
        async with turn:
            number = self._newest.get(equal.digest) or await self._listed(equal.digest)
            for _ in range(_TRIES):
                met = await self._met(caller_id, equal, key, number) if number else None
                if met is None:
                    try:
                        await start(same_task_id(equal.digest, number + 1))
                    except WorkflowAlreadyStartedError:
                        number += 1
                        continue
                    number += 1
                    met = MetTask(task_id=same_task_id(equal.digest, number))
                self._newest[equal.digest] = number
                return met
        raise ValueError("equal calls start faster than one of them can be found")

    async def own(self, equal: EqualCalls, key: str) -> MetTask | None:
        """The task that the item of this key has started, if there is one."""
        newest = await self._listed(equal.digest)
        # Lists lag behind; a description does not.
        while await self._described(same_task_id(equal.digest, newest + 1)) is not None:
            newest += 1
        for number in range(newest, max(0, newest - _LOOKED_BACK), -1):
            description = await self._described(same_task_id(equal.digest, number))
            if description is not None and await _key_of(description) == key:
                return MetTask(task_id=description.id)
        return None

    async def _listed(self, digest: str) -> int:
        """The newest number that visibility knows; 0 for none."""
        query = search_attributes.query_of_equal_calls(digest)
        found = self._client.list_workflows(query, limit=_LISTED, page_size=_LISTED)
        return max([same_task_number(execution.id) async for execution in found], default=0)

    async def _met(self, caller_id: str, equal: EqualCalls, key: str, number: int) -> MetTask | None:
        """The task of this number, if it answers the item."""
        description = await self._described(same_task_id(equal.digest, number))
        if description is None:
            return None
        if await _key_of(description) == key:
            return MetTask(task_id=description.id)
        if equal.max_age_seconds is None:
            return None
        if description.status is WorkflowExecutionStatus.RUNNING:
            is_ending = description.raw_description.workflow_extended_info.cancel_requested
            reused = None if is_ending else ReusedAnswer(joined=True, age_seconds=0.0)
        else:
            reused = await self._answered(caller_id, description, equal.max_age_seconds)
        return MetTask(task_id=description.id, reused=reused) if reused is not None else None

    async def _answered(
        self, caller_id: str, description: WorkflowExecutionDescription, max_age_seconds: float
    ) -> ReusedAnswer | None:
        """That it was answered, not too long ago, with what is there still."""
        if description.status is not WorkflowExecutionStatus.COMPLETED or description.close_time is None:
            return None
        age = max(0.0, (datetime.now(UTC) - description.close_time).total_seconds())
        if age > max_age_seconds:
            return None
        result = (await self._client.get_workflow_handle_for(ToolCallWorkflow.run, description.id).result()).result
        if result.is_error:
            return None
        if result.locator is not None:
            manifest = await load_manifest(self._objects, parse_locator(result.locator, caller_id=caller_id))
            if manifest is None or manifest.expires_at <= datetime.now(UTC):
                return None
        return ReusedAnswer(joined=False, age_seconds=round(age, 3))

    async def _described(self, task_id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._client.get_workflow_handle(task_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None


async def _key_of(description: WorkflowExecutionDescription) -> str | None:
    """The key with which the task was started; None if its record cannot be read."""
    try:
        summary = await description.memo_value(memo.SUMMARY, None, type_hint=TaskSummary)
    except UNREADABLE:
        return None
    return summary.request_key if summary is not None else None
