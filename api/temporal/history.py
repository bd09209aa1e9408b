"""Reads a workflow's history as a stream of events. Needs no worker, and always gives the same events.

A reader of one kind of workflow (tasks, turns, sessions) is a `RunFold`: it takes the entries of one run in order and
gives the corresponding events. `follow_history` feeds it, from run to run.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.api.temporal.errors import is_outage

Event = TypeVar("Event")

OUTAGE_PAUSE_SECONDS = 1.0
ABNORMAL_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "The workflow failed.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "An operator terminated the workflow.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "The workflow timed out.",
}
"""Ways in which a workflow ends without its own outcome, and the message for clients."""
_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


class RunFold(ABC, Generic[Event]):
    """A reader's state while it reads the history of one run."""

    def __init__(self, converter: DataConverter, number: int = 0) -> None:
        """Read run `number` of the workflow, counted from 0, and decode payloads with `converter`."""
        self.number = number
        self.continued_as: str | None = None
        self._converter = converter

    async def read(self, entry: HistoryEvent) -> Iterable[Event]:
        """The events of `entry`."""
        if entry.event_type == _CONTINUED:
            continued = entry.workflow_execution_continued_as_new_event_attributes
            self.continued_as = continued.new_execution_run_id
            return ()
        return await self.events_of(entry)

    @abstractmethod
    async def events_of(self, entry: HistoryEvent) -> Iterable[Event]:
        """The events of `entry`, which is not a continue-as-new."""

    async def decode(self, payload: Payload, contract: type[Any]) -> Any:
        """The value in `payload`."""
        return (await self._converter.decode([payload], [contract]))[0]


async def follow_history(
    client: Client, workflow_id: str, run_id: str | None, new_fold: Callable[[int], RunFold[Event]], *, wait: bool
) -> AsyncGenerator[Event]:
    """The events of a workflow from the run `run_id` on (the latest run for None), to its end.

    With `wait`, follows a running workflow; without, gives the events so far. Gives nothing while Temporal does not
    answer; afterwards it reads the run again from the beginning with a new fold, so callers have to skip the events
    that they already have. Ends early when Temporal has removed the history.
    """
    number = 0
    while True:
        fold = new_fold(number)
        try:
            handle = client.get_workflow_handle(workflow_id, run_id=run_id)
            async for entry in handle.fetch_history_events(wait_new_event=wait):
                for event in await fold.read(entry):
                    yield event
        except (RPCError, RuntimeError) as error:
            if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                return
            if not is_outage(error):
                raise
            await asyncio.sleep(OUTAGE_PAUSE_SECONDS)
            continue
        if fold.continued_as is None:
            return
        run_id, number = fold.continued_as, number + 1


def time_of(entry: HistoryEvent) -> datetime:
    """When the entry was written, in UTC."""
    return entry.event_time.ToDatetime(tzinfo=UTC)
