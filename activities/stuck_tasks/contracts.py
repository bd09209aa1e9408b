"""Contracts of the activity that ends a stuck task."""

from collections.abc import Sequence

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.activities.runs.contracts import AbortRunInput

TASK, TURN, SESSION = "ToolCallWorkflow", "TurnWorkflow", "SessionWorkflow"
"""The workflows that are ended. A session that cannot go on takes no message, and answers nobody who asks about it."""


class StuckLimits(Contract):
    """When a workflow counts as stuck: both limits are reached."""

    attempts: int = Field(default=10, ge=2, description="Failures of one step in a row.")
    after_seconds: float = Field(default=1_800, ge=0, description="Time since the first of them.")


class EndStuckInput(Contract):
    """Which workflow to end, if it is still stuck."""

    workflow_id: str
    run_id: str
    limits: StuckLimits = StuckLimits()


def error_of_end(details: Sequence[object]) -> ErrorEnvelope | None:
    """The error in the details of a termination; None for those of operators, who may put anything there."""
    if len(details) != 1:
        return None
    try:
        return ErrorEnvelope.model_validate(details[0])
    except ValidationError:
        return None


class StuckEnd(Contract):
    """What was ended, and what is left to do: runs to abort, a session to inform. Without `error` nothing was ended."""

    error: ErrorEnvelope | None = None
    tool: str = ""
    caller_id: str | None = None
    session_id: str | None = None
    runs: tuple[AbortRunInput, ...] = ()
