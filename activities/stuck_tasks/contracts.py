"""Contracts of the activity that deals with a stuck workflow, and the remedy for each type of workflow."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from pydantic import Field, ValidationError

from outlast.activities.batches.contracts import BATCH_WORKFLOW
from outlast.activities.contracts import Contract, ErrorEnvelope, JsonObject
from outlast.activities.dispatch.contracts import DISPATCH_WORKFLOW, NOTHING_TO_RELEASE_WORKFLOW
from outlast.activities.mcp_servers.contracts import REQUEST_WORKFLOW, SERVER_WORKFLOW
from outlast.activities.runs.contracts import AbortRunInput
from outlast.activities.schedules.contracts import FIRING_WORKFLOW, Started, StartFiringInput
from outlast.activities.spending.contracts import LEDGER_WORKFLOW
from outlast.activities.webhooks import contracts as webhooks

TASK, TURN, SESSION = "ToolCallWorkflow", "TurnWorkflow", "SessionWorkflow"
END_STUCK = "EndStuckWorkflow"
RETENTION = "RetentionWorkflow"
RESOLUTION = "TaskResolutionWorkflow"
TOOL_CHANGED = "ToolChanged"
"""Type of the failure of a call whose tool was removed or changed: see `workflows/tools/framework/changes.py`."""


class Remedy(StrEnum):
    """The treatment of a stuck workflow. The values are labels of metrics."""

    ENDED = "ended"
    """It is terminated with an error that its caller gets. A session takes no message then, a batch no further item."""
    RESTARTED = "restarted"
    """It is terminated and started in one step, with the state in its history. If nothing can be read, it
    is ended: others start it again."""
    RESET = "reset"
    """Its history begins again before its last step, and nothing of it is lost. Once; then it is left to operators."""


REMEDIES: Mapping[str, Remedy] = MappingProxyType(
    {
        TASK: Remedy.ENDED,
        TURN: Remedy.ENDED,
        SESSION: Remedy.ENDED,
        FIRING_WORKFLOW: Remedy.ENDED,
        webhooks.DELIVERY_WORKFLOW: Remedy.ENDED,
        RETENTION: Remedy.ENDED,
        RESOLUTION: Remedy.ENDED,
        SERVER_WORKFLOW: Remedy.ENDED,
        REQUEST_WORKFLOW: Remedy.ENDED,
        NOTHING_TO_RELEASE_WORKFLOW: Remedy.ENDED,
        BATCH_WORKFLOW: Remedy.RESTARTED,
        DISPATCH_WORKFLOW: Remedy.RESTARTED,
        webhooks.QUEUE_WORKFLOW: Remedy.RESTARTED,
        webhooks.SUBSCRIPTIONS_WORKFLOW: Remedy.RESTARTED,
        END_STUCK: Remedy.RESTARTED,
        LEDGER_WORKFLOW: Remedy.RESET,
    }
)
"""Each type of workflow that workers serve."""


class StuckLimits(Contract):
    """Both limits must be reached before a workflow counts as stuck."""

    attempts: int = Field(default=10, ge=2, description="Failures of one step in a row.")
    after_seconds: float = Field(default=1_800, ge=0, description="Time since the first of them.")


CANCELLED_LIMITS = StuckLimits(attempts=2, after_seconds=10)
"""Limits for a workflow that was cancelled: its caller waits for its end, and needs nothing else of it."""


class EndStuckInput(Contract):
    """The workflow to end, if it is still stuck."""

    workflow_id: str
    run_id: str
    limits: StuckLimits | None = Field(default=None, description="None: only if it was cancelled.")
    grace_seconds: float = Field(default=0, description="How long to wait first: it may recover.")


def end_stuck_id(workflow_id: str) -> str:
    """ID of the workflow that deals with a stuck one."""
    return f"end-stuck:{workflow_id}"


def error_of_end(details: Sequence[object]) -> ErrorEnvelope | None:
    """Return the error in the details of a termination; None for those of operators, who may put anything there."""
    if len(details) != 1:
        return None
    try:
        return ErrorEnvelope.model_validate(details[0])
    except ValidationError:
        return None


class StuckFiring(Contract):
    """The work that is left after a firing was ended."""

    order: JsonObject = Field(description="The `FiringInput` of the firing.")
    started: Started | None = Field(default=None, description="To be cancelled.")
    start: StartFiringInput | None = Field(
        default=None, description="A start that may have started something. Repeated, it only reports the result."
    )


class StuckEnd(Contract):
    """The workflow that was ended, and the work that is left. Without `error` nothing was ended."""

    error: ErrorEnvelope | None = None
    remedy: Remedy | None = Field(default=None, description="None when the workflow was not stuck, or is left alone.")
    tool: str = ""
    caller_id: str | None = None
    session_id: str | None = None
    runs: tuple[AbortRunInput, ...] = Field(default=(), description="Runs to abort.")
    first_run_id: str = Field(default="", description="Of the workflow. Events about it are named after it.")
    subject: webhooks.EventSubject | None = Field(default=None, description="The task, if its end is an event.")
    listeners: tuple[webhooks.WebhookListener, ...] = ()
    batch_id: str | None = Field(default=None, description="A batch whose open items are to be cancelled.")
    firing: StuckFiring | None = None
