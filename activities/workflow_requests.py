"""Requests to workflows that other workflows and processes share; and values that are sent together in one request."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionDescription,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Contract
from outlast.activities.heartbeat import raise_cancellation

AnswerT = TypeVar("AnswerT")

NOT_NOW = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.FAILED_PRECONDITION,
    }
)
"""Statuses of an update that may succeed later. FAILED_PRECONDITION: several workflow tasks in a row were lost, because
their workers were killed ("Workflow Task in failed state").
"""
_PAUSE_SECONDS = 1.0


@contextmanager
def ignore_missing() -> Generator[None]:
    """End the block without an error if the workflow or schedule does not exist. Raises every other `RPCError`."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def described(client: Client, workflow_id: str) -> WorkflowExecutionDescription | None:
    """Return Temporal's description of a workflow, None if it does not exist. Raises `RPCError`."""
    with ignore_missing():
        return await client.get_workflow_handle(workflow_id).describe()
    return None


async def update_with_start(
    client: Client, update: str, request: Contract, answer: type[AnswerT], workflow: str, state: Contract, **start: Any
) -> AnswerT:
    """Execute an update, and start its workflow with `state` first unless it runs. `start` has the id and so on."""
    operation: WithStartWorkflowOperation[Any, None] = WithStartWorkflowOperation(
        workflow, state, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING, **start
    )
    # The SDK raises the start's error where the handle is awaited; asyncio reports an error that is never awaited.
    handle = asyncio.ensure_future(operation.workflow_handle())
    handle.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        return await client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
            update, request, start_workflow_operation=operation, result_type=answer
        )
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise_cancellation(error)
        raise


async def until_accepted(send: Callable[[], Awaitable[AnswerT]], *, pause_seconds: float = _PAUSE_SECONDS) -> AnswerT:
    """Send an update that may be repeated, until it is answered. Raises the `RPCError` of a refusal."""
    while True:
        try:
            return await send()
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            pass
        except RPCError as error:
            if error.status not in NOT_NOW:
                raise
        await asyncio.sleep(pause_seconds)


T = TypeVar("T")


@dataclass
class _Batch(Generic[T]):
    values: list[T] = field(default_factory=list[T])
    sending: "asyncio.Future[None] | None" = None


class Combiner(Generic[T]):
    """Sends the values of each key with one request at a time, `most` values at most in each.

    Temporal accepts few signals at a time for one workflow, and refuses others ("Workflow is busy").
    """

    def __init__(self, send: Callable[[str, tuple[T, ...]], Awaitable[None]], *, most: int = 200) -> None:
        self._send = send
        self._most = most
        self._batches: dict[str, _Batch[T]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def add(self, key: str, value: T) -> None:
        """Return when the value was sent. Raises what its request raised."""
        batch = self._batches.get(key)
        if batch is None or len(batch.values) >= self._most:
            batch = self._batches[key] = _Batch()
        batch.values.append(value)
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            if batch.sending is None:
                if self._batches.get(key) is batch:
                    del self._batches[key]
                batch.sending = asyncio.ensure_future(self._send(key, tuple(batch.values)))
            await asyncio.shield(batch.sending)
