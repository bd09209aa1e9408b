"""Sessions and turns as the front doors show them. Pure."""

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError, TerminatedError

from outlast.activities.conversations.contracts import ModelMessage
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.api.temporal.stuck_ends import was_cancelled
from outlast.contracts.sessions import Session, Turn, TurnSummary
from outlast.workflows.contracts.turns import SessionOverview, SessionProfile, TurnReport, TurnStatus


def session_view(session_id: str, overview: SessionOverview) -> Session:
    """A session."""
    profile = overview.profile or SessionProfile()
    turns = (
        TurnSummary(
            id=turn.turn_id,
            message_id=turn.message_id,
            parent=turn.parent,
            retry_of=turn.retry_of,
            began=turn.began,
            ended=turn.ended,
        )
        for turn in overview.turns
    )
    return Session(
        id=session_id,
        title=overview.title,
        began=overview.began,
        provider_id=profile.provider_id,
        model_id=profile.model_id,
        tools=tuple(tool.shown for tool in profile.snapshot.tools),
        max_steps=profile.max_steps,
        max_output_tokens=profile.max_output_tokens,
        controls=profile.controls,
        budgets=profile.budgets,
        spent=overview.spent,
        turns=tuple(turns),
        head=overview.head,
        running=overview.running,
    )


def turn_view(session_id: str, result: TurnReport, messages: tuple[ModelMessage, ...]) -> Turn:
    """A turn that has ended."""
    return Turn(
        id=result.turn_id,
        session_id=session_id,
        message_id=result.message_id,
        assistant_message_id=result.turn_id,
        status=result.status,
        reason=result.reason,
        text=result.text,
        messages=messages,
        steps=result.spent.steps,
        usage=result.spent.usage,
        cost_usd=result.spent.usd,
        error=result.error,
    )


def running_turn(session_id: str, turn_id: str) -> Turn:
    """A turn that has not ended."""
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=TurnStatus.RUNNING)


def abnormal_turn(session_id: str, turn_id: str, error: WorkflowFailureError) -> Turn:
    """A turn whose workflow did not end by itself."""
    stuck = error_of_end(error.cause.details) if isinstance(error.cause, TerminatedError) else None
    cancelled = isinstance(error.cause, CancelledError) or (stuck is not None and was_cancelled(stuck))
    envelope = stuck or ErrorEnvelope(
        tool="",
        message=f"The turn did not end by itself: {error.cause}"[:2_000],
        category=ErrorCategory.CANCELLED if cancelled else ErrorCategory.UNKNOWN,
        retryable=False,
    )
    status = TurnStatus.CANCELLED if cancelled else TurnStatus.FAILED
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=status, error=envelope)
