"""Contracts of sessions and their turns: signals, events, inputs, results, and the state between runs."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import (
    MAX_SECONDS,
    MAX_USD,
    AtMost,
    Count,
    PositiveCount,
    PositiveMinutes,
    PositiveTokens,
    UsdFloat,
)
from outlast.activities.contracts import Caller, Contract, Digest, ErrorEnvelope
from outlast.activities.conversations.contracts import (
    ConversationOwner,
    ConversationRef,
    ImagePart,
    ModelMessage,
    TextPart,
    caller_part,
)
from outlast.activities.llm.contracts import ModelControls, Usage
from outlast.activities.outputs.contracts import OutputPolicy
from outlast.activities.spending.contracts import SpendingCaps
from outlast.activities.webhooks.contracts import WebhookListener
from outlast.workflows.contracts.self_correction import (
    CallOutcome,
    EarlierFailures,
    SelfCorrection,
    Verdict,
    observe,
    verdict_on,
)
from outlast.workflows.contracts.tool_calls import (
    AdmittedTool,
    CallRefused,
    CarriedRule,
    OutputOptions,
    ServerTarget,
    TaskCompleted,
)

TURN_WORKFLOW_PREFIX = "turn:"
DEFAULT_MAX_STEPS = 20
MAX_STEPS = 200
MAX_PARALLEL_CALLS = 32
"""Maximum number of calls of one step. The model gets an error for each call beyond it."""


class TurnTool(Contract):
    """A tool as it was when its session began."""

    shown: str = Field(description="The tool's name in definitions for the model.")
    name: str = Field(description="The tool's own name.")
    actor: str | None = None
    calls_actor: bool = False
    planned_actors: tuple[str, ...] = ()
    planned_tasks: tuple[str, ...] = ()
    has_approval: bool | None = None
    calls_tools: bool = Field(default=False, description="Whether its function may call other tools.")
    admitted_tool: AdmittedTool | None = None
    budget_usd: Decimal | None = None
    server: ServerTarget | None = Field(default=None, description="For a tool of an MCP server.")
    input_schema_json: str = Field(description="JSON Schema of the arguments, by the tool's own names.")
    fields: dict[str, str] = Field(default_factory=dict, description="Original names of arguments, by the names shown.")


class ToolSnapshot(Contract):
    """The tools of a session. They never change in it, so that a provider's cache serves them in every step."""

    definitions_json: str = "[]"
    tools: tuple[TurnTool, ...] = ()


class Budgets(Contract):
    """Limits of a turn, or of all turns of a session together. An absent limit does not apply."""

    steps: PositiveCount | None = Field(default=None, description="Calls of the model.")
    tokens: PositiveTokens | None = Field(default=None, description="Input and output tokens, including cached ones.")
    usd: UsdFloat | None = Field(
        default=None, description="US dollars for models whose prices are known, and for Actors."
    )
    minutes: PositiveMinutes | None = Field(default=None, description="Time from the start of a turn to its end.")


class Spent(Contract):
    """Usage so far."""

    steps: Count = 0
    usage: Usage = Usage()
    usd: Annotated[float, AtMost(int(MAX_USD))] = 0.0
    seconds: Annotated[float, AtMost(MAX_SECONDS)] = 0.0


class StepSeconds(Contract):
    """Durations of a step and its parts. Tools run concurrently: theirs is the time of the slowest."""

    total: float
    model: float = Field(description="Time from the request to the provider to the end of its answer.")
    tools: float = Field(default=0.0, description="Time from a tool's start until its handler returned.")
    overhead: float = Field(description="Remaining time: queueing, storage, decisions. At least 0.")

    @classmethod
    def of(cls, total: float, model: float, tools: float) -> "StepSeconds":
        """The overhead is what is left. Model and step are timed by different clocks, so it may come out below 0."""
        left = max(total - model - tools, 0.0)
        return cls(total=round(total, 6), model=round(model, 6), tools=round(tools, 6), overhead=round(left, 6))


class SessionProfile(Contract):
    """Properties that all turns of a session share."""

    provider_id: str | None = None
    model_id: str | None = None
    system: str = ""
    snapshot: ToolSnapshot = ToolSnapshot()
    prompt: Digest | None = Field(
        default=None,
        description="Digest of the stored `system` and definitions of `snapshot`, which it replaces.",
    )
    tool_mask: dict[str, bool] | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    max_output_tokens: int | None = Field(default=None, description="Per call of the model; None: the model's limit.")
    controls: ModelControls = ModelControls()
    budgets: Budgets = Budgets()
    output: OutputOptions = OutputOptions()
    asked: dict[str, JsonValue] = Field(
        default_factory=dict, description="The settings of the request that began the session, for exports."
    )


class TurnState(Contract):
    """State of a turn, passed to its next run."""

    began: datetime
    step: int = 0
    messages: tuple[ModelMessage, ...] = Field(
        default=(), description="Messages of this turn that are not in `conversation` yet."
    )
    spent: Spent = Spent()
    failures: SelfCorrection = SelfCorrection()
    reminded: tuple[str, ...] = Field(default=(), description="Signatures of failures that the model was reminded of.")
    text: str = Field(default="", description="Text of the model in the latest step.")
    conversation: ConversationRef | None = Field(
        default=None,
        description="The conversation before `messages`, once part of the turn is stored or messages are summarised.",
    )
    continues: bool = Field(default=False, description="Whether the store has the turn's beginning.")
    repeated: int = Field(
        default=0, description="Number of `messages` that are already stored, including summarised ones."
    )
    shortened: ConversationRef | None = Field(
        default=None, description="The conversation that begins with a summary, as this turn's compaction left it."
    )


class TurnInput(Contract):
    """Input of TurnWorkflow."""

    caller: Caller
    session_id: str
    turn_id: str
    message_id: str
    parts: tuple[TextPart | ImagePart, ...] = Field(description="The user's message.")
    provider_id: str
    model_id: str
    tool_mask: dict[str, bool] | None = Field(default=None, description="Active tools, by original name; None: all.")
    max_steps: int = DEFAULT_MAX_STEPS
    budgets: Budgets = Budgets()
    system: str = ""
    dynamic: str = ""
    snapshot: ToolSnapshot = ToolSnapshot()
    prompt: Digest | None = Field(default=None, description="As in `SessionProfile`.")
    conversation: ConversationRef = Field(default=ConversationRef(), description="The conversation before this turn.")
    output: OutputPolicy = OutputPolicy()
    run_heartbeat_seconds: int = 30
    rules: tuple[CarriedRule, ...] = ()
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")
    listeners: tuple[WebhookListener, ...] = Field(default=(), description="Webhooks for events of the turn's calls.")
    max_output_tokens: int = 4_096
    controls: ModelControls = ModelControls()
    window_tokens: int | None = Field(default=None, description="Context window of the model; None: unknown.")
    sees_pictures: bool | None = Field(default=None, description="Whether the model accepts images; None: unknown.")
    compaction: bool = Field(default=False, description="Whether conversations that are too long are summarised.")
    earlier_failures: EarlierFailures = Field(default=EarlierFailures(), description="Failures before this turn.")
    asked: dict[str, JsonValue] = Field(default_factory=dict, description="The options that a retry keeps.")
    so_far: TurnState | None = None


class TurnStatus(StrEnum):
    """State of a turn."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """Ended by a budget, by its number of steps, or by a repeated failure."""
    FAILED = "failed"
    CANCELLED = "cancelled"


FinishReason = Literal[
    "stop", "length", "content_filter", "other", "max_steps", "budget", "doom_loop", "error", "cancelled"
]


class Ending(Contract):
    """The end of a turn, and the reason."""

    status: TurnStatus
    reason: FinishReason
    error: ErrorEnvelope | None = None


class TurnReport(Contract):
    """The outcome of a turn, without its messages. It is kept with them."""

    turn_id: str
    message_id: str
    status: TurnStatus
    reason: FinishReason
    text: str
    before: ConversationRef = Field(description="The conversation that the turn continues.")
    spent: Spent
    error: ErrorEnvelope | None = None
    asked: dict[str, JsonValue] = Field(default_factory=dict, description="The options that a retry keeps.")


class TurnResult(TurnReport):
    """The outcome of a turn. `conversation` ends with the block of the turn's messages, the user's first."""

    conversation: ConversationRef | None = Field(default=None, description="None: the messages could not be stored.")


class TurnRef(Contract):
    """A turn in the state of its session. `parent` is the turn whose conversation it continues."""

    turn_id: str
    message_id: str
    parent: str | None = None
    retry_of: str | None = None
    began: datetime
    ended: bool = False
    asked_digest: str | None = Field(default=None, description="SHA-256 of the message only.")
    before: ConversationRef = Field(default=ConversationRef(), description="The conversation that it continues.")
    conversation: ConversationRef | None = Field(default=None, description="Includes the turn; absent until it ends.")


class BeginTurn(Contract):
    """Request for a place in the session. `over` is a turn that is known not to run."""

    turn_id: str
    message_id: str
    retry_of: str | None = None
    asked_digest: str | None = None
    title: str | None = Field(default=None, description="Beginning of the message, for a session without a title.")
    retried_before: ConversationRef = Field(
        default=ConversationRef(), description="With `retry_of`: the conversation that the retried turn continues."
    )
    over: str | None = None


class TurnPlace(Contract):
    """Status of a turn. `busy` is the turn that must end first; if set, nothing has changed."""

    turn: TurnRef | None = None
    busy: TurnRef | None = None
    spent: Spent = Spent()
    over: str | None = Field(
        default=None, description="The exhausted budget of the session; if set, nothing has changed."
    )
    failures: EarlierFailures = EarlierFailures()


class TurnEnded(Contract):
    """Signal from a turn to its session that it has ended. `counts`: the conversation continues from it."""

    turn_id: str
    counts: bool
    conversation: ConversationRef | None = Field(
        default=None, description="Includes the turn. None: it was not stored."
    )
    shortened: ConversationRef | None = Field(
        default=None,
        description="The summarised conversation before the turn, if any; later turns continue from it.",
    )
    spent: Spent = Spent()
    reminded: tuple[str, ...] = Field(default=(), description="Failures that its model was reminded of.")


class SessionOverview(Contract):
    """A session as it is: its profile, its latest turns, the turn that the conversation continues from."""

    profile: SessionProfile | None = None
    title: str | None = None
    began: datetime | None = None
    turns: tuple[TurnRef, ...] = ()
    head: str | None = None
    conversation: ConversationRef = ConversationRef()
    running: str | None = None
    spent: Spent = Spent()
    deleted: bool = False


class SessionListing(Contract):
    """A session in lists: the memo of its workflow, which is readable without a worker."""

    title: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    began: datetime | None = None
    updated: datetime | None = None
    turns: int = 0


class AdoptConversation(Contract):
    """Request to take over an imported conversation, accepted only by sessions without turns."""

    title: str | None = None
    turns: tuple[TurnRef, ...] = Field(description="The latest turns, as in the session's list.")
    turn_count: int = Field(description="Number of all turns.")
    conversation: ConversationRef


class TurnEvent(Contract):
    """An event that the workflow itself reports; streamed text and retries are read from its history."""

    name: Literal["compaction", "tool-call", "tool-result", "reminder", "step-finish", "finish", "error"]
    data: dict[str, JsonValue]


class TurnEvents(Contract):
    """Simultaneous events, in order: one change of the turn's memo."""

    events: tuple[TurnEvent, ...]


def turn_workflow_id(caller_id: str, session_id: str, turn_id: str) -> str:
    """ID of a turn's workflow. It includes the caller, so turns of different callers never share a workflow."""
    return f"{TURN_WORKFLOW_PREFIX}{caller_part(caller_id)}:{session_id}:{turn_id}"


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
    self_correction: Verdict | None = Field(default=None, description="For a repeated failure: a reminder, or a stop.")


TASK_COMPLETED_SIGNAL = "task_completed"
CALL_REFUSED_SIGNAL = "call_refused"
POSTED_SIGNAL = "posted"
TURN_ENDED_SIGNAL = "turn_ended"


class SessionState(Contract):
    """State that a session hands to its next run."""

    caller_id: str
    session_id: str
    idle_seconds: float = Field(default=SESSION_IDLE.total_seconds(), description="Time without events until it ends.")
    title: str | None = None
    began: datetime | None = Field(default=None, description="Start time of its first run.")
    turn_count: int = Field(default=0, description="Number of all turns, including those no longer listed.")
    next_number: int = 1
    events: tuple[SessionEvent, ...] = Field(default=(), description=f"The latest {KEPT_EVENTS} events.")
    self_correction: SelfCorrection = Field(default=SelfCorrection(), description="Counts of its failed calls.")
    profile: SessionProfile | None = Field(default=None, description="Absent before the first turn is requested.")
    turns: tuple[TurnRef, ...] = Field(default=(), description=f"The latest {KEPT_EVENTS} turns.")
    head: str | None = Field(default=None, description="The turn that the conversation continues from.")
    conversation: ConversationRef = Field(default=ConversationRef(), description="The conversation up to `head`.")
    running: str | None = Field(default=None, description="The turn that has not ended.")
    spent: Spent = Spent()
    reminded: tuple[str, ...] = Field(default=(), description="Signatures of failures that models were reminded of.")


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
