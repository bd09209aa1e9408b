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
from outlast.workflows.contracts.tool_calls import AdmittedTool, CallRefused, CarriedRule, OutputOptions, TaskCompleted

TURN_WORKFLOW_PREFIX = "turn:"
DEFAULT_MAX_STEPS = 20
MAX_STEPS = 200
MAX_PARALLEL_CALLS = 32
"""Maximum number of calls of one step. The model gets an error for each call beyond it."""


class TurnTool(Contract):
    """A tool as it was when its session began."""

    shown: str = Field(description="The name that the model knows.")
    name: str = Field(description="The tool's own name.")
    actor: str | None = None
    calls_actor: bool = False
    planned_actors: tuple[str, ...] = ()
    planned_tasks: tuple[str, ...] = ()
    has_approval: bool | None = None
    calls_tools: bool = Field(default=False, description="Whether its function may call other tools.")
    admitted_tool: AdmittedTool | None = None
    budget_usd: Decimal | None = None
    input_schema_json: str = Field(description="JSON Schema of the arguments, by the tool's own names.")
    fields: dict[str, str] = Field(default_factory=dict, description="Own names of arguments by the ones shown.")


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
    model: float = Field(description="From the request to the provider to the end of its answer.")
    tools: float = Field(default=0.0, description="From a tool's start until its handler returned.")
    overhead: float = Field(description="All the rest: queues, storing, deciding. Never below 0.")

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
        description="`system` and the definitions of `snapshot` as the store has them, in place of the two.",
    )
    tool_mask: dict[str, bool] | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    max_output_tokens: int | None = Field(default=None, description="Of one call of the model; None: as the model can.")
    controls: ModelControls = ModelControls()
    budgets: Budgets = Budgets()
    output: OutputOptions = OutputOptions()
    asked: dict[str, JsonValue] = Field(
        default_factory=dict, description="The settings that it was begun with, as they were given: what an export has."
    )


class TurnState(Contract):
    """State of a turn, passed to its next run."""

    began: datetime
    step: int = 0
    messages: tuple[ModelMessage, ...] = Field(
        default=(), description="Those of this turn that `conversation` does not have yet."
    )
    spent: Spent = Spent()
    failures: SelfCorrection = SelfCorrection()
    reminded: tuple[str, ...] = Field(default=(), description="Failures that the model was reminded of, by signature.")
    text: str = Field(default="", description="What the model has said in the latest step.")
    conversation: ConversationRef | None = Field(
        default=None,
        description="What `messages` follow, once a part of this turn is stored, or what is older summarised.",
    )
    continues: bool = Field(default=False, description="Whether the store has the turn's beginning.")
    repeated: int = Field(
        default=0, description="How many of `messages` are stored already, with those that were summarised."
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
    tool_mask: dict[str, bool] | None = Field(default=None, description="By the tools' own names; None: all.")
    max_steps: int = DEFAULT_MAX_STEPS
    budgets: Budgets = Budgets()
    system: str = ""
    dynamic: str = ""
    snapshot: ToolSnapshot = ToolSnapshot()
    prompt: Digest | None = Field(default=None, description="As in the profile of its session.")
    conversation: ConversationRef = Field(default=ConversationRef(), description="What was said before this turn.")
    output: OutputPolicy = OutputPolicy()
    run_heartbeat_seconds: int = 30
    rules: tuple[CarriedRule, ...] = ()
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")
    listeners: tuple[WebhookListener, ...] = Field(default=(), description="Webhooks that hear of the turn's calls.")
    max_output_tokens: int = 4_096
    controls: ModelControls = ModelControls()
    window_tokens: int | None = Field(default=None, description="The model's, of prompt and answer; None: not known.")
    sees_pictures: bool | None = Field(default=None, description="Whether the model does; None: not known.")
    compaction: bool = Field(default=False, description="Whether a conversation that is too long is summarised.")
    earlier_failures: EarlierFailures = Field(default=EarlierFailures(), description="Those of the session before.")
    asked: dict[str, JsonValue] = Field(default_factory=dict, description="The options that a retry of it keeps.")
    so_far: TurnState | None = None


class TurnStatus(StrEnum):
    """State of a turn."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """Ended by a budget, by its number of steps, or because the same failure came again and again."""
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
    asked: dict[str, JsonValue] = Field(default_factory=dict, description="The options that a retry of it keeps.")


class TurnResult(TurnReport):
    """The outcome of a turn. `conversation` ends with the block of the turn's messages, the user's first."""

    conversation: ConversationRef | None = Field(default=None, description="None: the messages could not be stored.")


class TurnRef(Contract):
    """A turn as its session knows it. `parent` is the turn whose conversation it continues."""

    turn_id: str
    message_id: str
    parent: str | None = None
    retry_of: str | None = None
    began: datetime
    ended: bool = False
    asked_digest: str | None = Field(default=None, description="SHA-256 of the message, and of nothing else.")
    before: ConversationRef = Field(default=ConversationRef(), description="The conversation that it continues.")
    conversation: ConversationRef | None = Field(default=None, description="Up to its end, once it has ended.")


class BeginTurn(Contract):
    """Ask for a place in the session. `over` is a turn of which the asker knows that it does not run."""

    turn_id: str
    message_id: str
    retry_of: str | None = None
    asked_digest: str | None = None
    title: str | None = Field(default=None, description="For a session that has none: how the message begins.")
    retried_before: ConversationRef = Field(
        default=ConversationRef(), description="With `retry_of`: the conversation that the retried turn continues."
    )
    over: str | None = None


class TurnPlace(Contract):
    """Status of a turn. `busy` is the turn that must end first; if set, nothing has changed."""

    turn: TurnRef | None = None
    busy: TurnRef | None = None
    spent: Spent = Spent()
    over: str | None = Field(default=None, description="Which budget of the session is used up; then nothing changed.")
    failures: EarlierFailures = EarlierFailures()


class TurnEnded(Contract):
    """A turn tells its session that it has ended. `counts`: the conversation continues from it."""

    turn_id: str
    counts: bool
    conversation: ConversationRef | None = Field(default=None, description="Up to its end. None: it was not stored.")
    shortened: ConversationRef | None = Field(
        default=None, description="What came before it, if it was summarised: later turns continue from it, too."
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
    """A session as lists show it: the memo of its workflow, so that no worker has to be asked."""

    title: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    began: datetime | None = None
    updated: datetime | None = None
    turns: int = 0


class AdoptConversation(Contract):
    """Take a conversation over that was imported. Only a session without turns does."""

    title: str | None = None
    turns: tuple[TurnRef, ...] = Field(description="The latest ones, as a session lists them.")
    turn_count: int = Field(description="All of them.")
    conversation: ConversationRef


class TurnEvent(Contract):
    """An event that the workflow itself tells; streamed text and retries are read from its history."""

    name: Literal["compaction", "tool-call", "tool-result", "reminder", "step-finish", "finish", "error"]
    data: dict[str, JsonValue]


class TurnEvents(Contract):
    """Events that came at once, in their order: one change of the turn's memo."""

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
