"""Contracts of a session's workflow: its signals, its events, and the state that it hands to its next run."""

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Contract
from outlast.activities.conversations.contracts import ConversationOwner, ConversationRef
from outlast.workflows.contracts.self_correction import CallOutcome, SelfCorrection, Verdict, observe, verdict_on
from outlast.workflows.contracts.tool_calls import CallRefused, TaskCompleted
from outlast.workflows.contracts.turns import (
    SessionProfile,
    Spent,
    TurnRef,
)

KEPT_EVENTS = 200

SESSION_IDLE = timedelta(days=30)
"""Default idle time of a session before it ends (OUTLAST_SESSION_IDLE_DAYS)."""


class Posted(Contract):
    """A message of a tool to the user: an update, or a reaction (an emoji) to the message being answered."""

    kind: Literal["update", "reaction"]
    text: str
    task_id: str
    tool: str
    message_id: str | None = None


class SessionEvent(Contract):
    """One entry of the log, with `task_completed`, `call_refused` or `posted`.

    `number` counts from 1 and never repeats, also when the workflow continues as new.
    """

    number: int
    time: datetime | None = None
    task_completed: TaskCompleted | None = None
    call_refused: CallRefused | None = None
    posted: Posted | None = None
    self_correction: Verdict | None = Field(
        default=None, description="With a failure that came before: a reminder, or that it is time to stop."
    )


TASK_COMPLETED_SIGNAL = "task_completed"
CALL_REFUSED_SIGNAL = "call_refused"
POSTED_SIGNAL = "posted"
TURN_ENDED_SIGNAL = "turn_ended"


class SessionState(Contract):
    """State that a session hands to its next run."""

    caller_id: str
    session_id: str
    idle_seconds: float = Field(default=SESSION_IDLE.total_seconds(), description="Its life without an event.")
    title: str | None = None
    began: datetime | None = Field(default=None, description="When its first run began.")
    turn_count: int = Field(default=0, description="All of its turns, those that are no longer listed too.")
    next_number: int = 1
    events: tuple[SessionEvent, ...] = Field(default=(), description=f"The latest {KEPT_EVENTS} events.")
    self_correction: SelfCorrection = Field(default=SelfCorrection(), description="The failures of its calls, counted.")
    profile: SessionProfile | None = Field(default=None, description="Absent while no turn was asked for.")
    turns: tuple[TurnRef, ...] = Field(default=(), description=f"The latest {KEPT_EVENTS} turns.")
    head: str | None = Field(default=None, description="The turn that the conversation continues from.")
    conversation: ConversationRef = Field(default=ConversationRef(), description="All that was said, up to `head`.")
    running: str | None = Field(default=None, description="The turn that has not ended.")
    spent: Spent = Spent()
    reminded: tuple[str, ...] = Field(default=(), description="Failures that models were reminded of, by signature.")


class SelfCorrectionView(Contract):
    """The failures of a session, and what follows from its latest call."""

    counted: SelfCorrection
    verdict: Verdict


def corrected(counted: SelfCorrection, call: TaskCompleted | CallRefused) -> tuple[SelfCorrection, Verdict | None]:
    """The failures after one more call, and the verdict on it when there is something to do.

    Pure: `outlast.api.temporal.session_events` counts with it too. A call recorded by an older version has only its
    signature; its failure counts as retryable.
    """
    retryable = call.error.retryable if call.error else True
    outcome = CallOutcome(tool=call.tool, signature=call.error_signature, retryable=retryable)
    counted = observe(counted, outcome)
    verdict = verdict_on(counted)
    return counted, verdict if verdict.action != "none" else None


def session_workflow_id(caller_id: str, session_id: str) -> str:
    """Id of the session's workflow. The same session id of two callers gives two workflows."""
    return ConversationOwner(caller_id=caller_id, session_id=session_id).workflow_id
