"""SessionWorkflow: the event log of one conversation. It receives every call's task-completed signal, and what tools
say to the user meanwhile."""

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field
from temporalio import workflow

from activities.models import Contract
from workflows.models import TaskCompleted

SESSION_WORKFLOW_PREFIX = "session:"
_KEPT_EVENTS = 200
_IDLE = timedelta(days=30)


class Posted(Contract):
    """What a tool said to the user: an update, or a reaction (an emoji) to the message that is answered."""

    kind: Literal["update", "reaction"]
    text: str
    task_id: str
    tool: str
    message_id: str | None = None


class SessionEvent(Contract):
    """One entry of the log, with one of its two parts. `number` counts from 1 and never repeats, also when the workflow
    continues as new.
    """

    number: int
    time: datetime | None = None
    task_completed: TaskCompleted | None = None
    posted: Posted | None = None


TASK_COMPLETED_SIGNAL = "task_completed"
POSTED_SIGNAL = "posted"


class SessionState(Contract):
    """What a session hands to its next run."""

    caller_id: str
    session_id: str
    next_number: int = 1
    events: tuple[SessionEvent, ...] = Field(default=(), description=f"The latest {_KEPT_EVENTS} events.")


def session_workflow_id(caller_id: str, session_id: str) -> str:
    """The session's workflow. Session ids of different callers never meet."""
    return f"{SESSION_WORKFLOW_PREFIX}{caller_id}:{session_id}"


@workflow.defn
class SessionWorkflow:
    """Holds a conversation's events; ends after 30 days without one and is made anew by the next call."""

    @workflow.init
    def __init__(self, state: SessionState) -> None:
        """Go on from `state`."""
        self._state = state
        self._changed = False

    @workflow.run
    async def run(self, _state: SessionState) -> None:
        """Take events until the history is long enough to continue as new, or nothing has come for long."""
        while not workflow.info().is_continue_as_new_suggested():
            self._changed = False
            try:
                await workflow.wait_condition(lambda: self._changed, timeout=_IDLE)
            except TimeoutError:
                return
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._state)

    @workflow.signal(name=TASK_COMPLETED_SIGNAL)
    def task_completed(self, event: TaskCompleted) -> None:
        """A call of this session has its answer."""
        self._take(SessionEvent(number=self._state.next_number, time=workflow.now(), task_completed=event))

    @workflow.signal(name=POSTED_SIGNAL)
    def posted(self, event: Posted) -> None:
        """A call of this session has something to say."""
        self._take(SessionEvent(number=self._state.next_number, time=workflow.now(), posted=event))

    @workflow.query
    def events(self) -> list[SessionEvent]:
        """The latest events, oldest first."""
        return list(self._state.events)

    def _take(self, event: SessionEvent) -> None:
        """Every signal is one event, in the order of the history: `api.session_events` counts on it."""
        events = (*self._state.events, event)[-_KEPT_EVENTS:]
        self._state = self._state.model_copy(update={"events": events, "next_number": event.number + 1})
        self._changed = True
