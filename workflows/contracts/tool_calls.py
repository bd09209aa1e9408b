"""Contracts of a tool call: the call and its options, its result, and the description of its task.

A history contains rows only once: the recorded form of a `ToolResult` has `rows_at`, the position in its first text
where the rows of its structured form belong. An outcome refers to the rows of a run by their digest."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, Self, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import from_json, to_json

from outlast.activities.bounds import PositiveSeconds
from outlast.activities.contracts import Caller, Contract, ErrorEnvelope, JsonObject, SealedSecret
from outlast.activities.mcp_servers.contracts import SessionScope, Verify
from outlast.activities.outputs.contracts import OutputPolicy
from outlast.activities.runs.contracts import Budget, Production, Resurrection, RunState, Until
from outlast.activities.spending.contracts import SpendingCaps
from outlast.activities.unicode_text import ValidText
from outlast.activities.webhooks.contracts import MAX_OWN_WEBHOOKS, SECRET_PREFIX, WebhookEventType, WebhookListener
from outlast.suggestions import suggested
from outlast.workflows.contracts.written_json import as_json

MAX_AGE = timedelta(days=30)
"""The oldest answer that may be reused."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def age_of(text: str) -> timedelta:
    """`90s`, `10m`, `6h` or `7d` as a duration."""
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def same_task_id(digest: str, number: int) -> str:
    """The id of a task that identical calls share: the first one of their digest, or the one that follows it."""
    return f"same-{digest}-{number}"


def same_task_number(task_id: str) -> int:
    """Number of the task among those of its digest."""
    return int(task_id.rpartition("-")[2])


def _as_text(value: object) -> object:
    """Seconds as a number are seconds."""
    return f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else value


def _checked_age(text: str) -> str:
    if not timedelta(0) < age_of(text) <= MAX_AGE:
        raise ValueError(f"an age is longer than zero and at most {MAX_AGE.days}d")
    return text


Age = Annotated[
    str, BeforeValidator(_as_text), Field(max_length=8, pattern=r"^[0-9]{1,7}[smhd]$"), AfterValidator(_checked_age)
]
"""Maximum age of an answer: `90s`, `10m`, `6h`, `7d`, or seconds as a number; at most `30d`."""


class Reuse(Contract):
    """Reuse of the answer of an identical call of the same caller."""

    max_age: Age | None = Field(
        default=None,
        description="Maximum age of the answer to reuse: `90s`, `10m`, `6h`, `7d`. The answer of an identical call "
        "that is running is reused, too.",
    )
    refresh: bool = Field(
        default=False, description="Always start the call; later identical calls may reuse its answer."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.max_age is None and not self.refresh:
            raise ValueError("set `max_age` or `refresh`")
        return self


Action = Literal["allow", "ask", "deny"]
"""Effect of a rule on a call, the strictest last."""


class DecidingRule(Protocol):
    """One of the operator's rules, in whatever form."""

    @property
    def action(self) -> Action:
        """Effect on the call."""
        ...

    @property
    def text(self) -> str:
        """The rule as it was written."""
        ...

    @property
    def approver(self) -> str | None:
        """With `ask`: the role that another caller must have to approve."""
        ...


class PermissionRuling(Contract):
    """The verdict of the operator's rules on one call, decided at the entry point."""

    action: Action
    rule: str = Field(description="Text of the deciding rule.")
    approvers: tuple[str, ...] = Field(
        default=(),
        description="With `ask`: only another caller who has all of these roles may approve. Empty: anyone.",
    )
    actor: str | None = Field(default=None, description="Full name of the Actor that the call runs, if it is known.")

    @classmethod
    def strictest(cls, rules: Sequence[DecidingRule], actor: str | None = None) -> "PermissionRuling | None":
        """The ruling where each of `rules` is about a name of the call; None without any.

        The strictest decides. Where several ask, the approver needs the roles that they demand together.
        """
        if not rules:
            return None
        decides = max(rules, key=lambda rule: (get_args(Action).index(rule.action), rule.approver is not None))
        roles = {rule.approver for rule in rules if rule.action == "ask" and rule.approver}
        approvers = tuple(sorted(roles)) if decides.action == "ask" else ()
        return cls(action=decides.action, rule=decides.text, approvers=approvers, actor=actor)


class CarriedRule(Contract):
    """One of the operator's permission rules, of those that are about the caller of a turn, or of a tool's function."""

    tool: str
    action: Action
    text: str
    approver: str | None = Field(default=None, description="With `ask`: the role that another caller must have.")


class InnerCalls(Contract):
    """Rules for the calls that a tool's function makes (`ctx.call`), as they were when the tool was called."""

    rules: tuple[CarriedRule, ...] = ()
    builtin_tools: tuple[str, ...] | None = Field(
        default=None, description="Tools of Outlast that this installation offers; None: all."
    )
    depth: int = Field(default=0, description="Nesting depth: the number of enclosing calls.")
    conversation: str | None = Field(
        default=None, description="Session of Outlast or of the MCP client: its calls share sessions of MCP servers."
    )


_MAX_ADDRESS_CHARS = 2_048
_LEAST_BYTES, _MOST_BYTES = 24, 64
"""Length of a secret by the Standard Webhooks specification."""


def _checked_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(SECRET_PREFIX) or not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a secret reads `{SECRET_PREFIX}` and the base64 of {_LEAST_BYTES} to {_MOST_BYTES} bytes")
    return secret


SigningSecret = Annotated[SecretStr, Field(max_length=120), AfterValidator(_checked_secret)]
"""`whsec_` and base64."""
Address = Annotated[SecretStr, Field(min_length=1, max_length=_MAX_ADDRESS_CHARS)]
"""An http(s) address."""


class OwnWebhook(Contract):
    """An address that receives the events of one call or batch."""

    url: Address = Field(description="Where events are posted: the address of a public web server.")
    secret: SigningSecret = Field(
        description="Key that signs the events: `whsec_` and the base64 of 24 to 64 random bytes, as in Standard "
        "Webhooks."
    )
    events: tuple[WebhookEventType, ...] = Field(
        default=(), max_length=len(WebhookEventType), description="Types of events to send. Default: all."
    )

    @property
    def in_the_clear(self) -> JsonObject:
        """All of it, for a keyed digest and nothing else."""
        events: list[JsonValue] = [one.value for one in self.events]
        return {"url": self.url.get_secret_value(), "secret": self.secret.get_secret_value(), "events": events}


DEFAULT_DEADLINE_SECONDS = 24 * 3600
APPROVAL_META = "outlast/approval"
"""Key in an answer's meta: who approved or declined the call, when, and with which note."""
CLIENT_META = "outlast/client"
"""Key in an answer's meta: which client phase was answered, by whom, and with which answer."""
UNTIL_META = "outlast/until"
"""Key in an answer's meta: which condition of `options.until` was met, so that the run was stopped."""
DEFECT_META = "outlast/defect"
"""Key in an answer's meta that distinguishes a defect of the tool from an expected failure."""
MAX_DEADLINE_SECONDS = 30 * 24 * 3600
"""The longest deadline that a call may have."""


class TaskStatus(StrEnum):
    """State of a task: `queued`, and the values of MCP's tasks (2025-11-25, `TaskStatus`)."""

    QUEUED = "queued"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if the status can no longer change."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class TextContent(Contract):
    """A piece of an answer that a model reads (MCP `TextContent`)."""

    type: Literal["text"] = "text"
    text: str


class ImageContent(Contract):
    """A picture, base64 (MCP `ImageContent`)."""

    type: Literal["image"] = "image"
    data: str
    mimeType: str  # noqa: N815 (the shape is MCP's, in every protocol that shows it)


class AudioContent(Contract):
    """Audio, base64 (MCP `AudioContent`)."""

    type: Literal["audio"] = "audio"
    data: str
    mimeType: str  # noqa: N815


class BlobResource(Contract):
    """Binary content, base64, and its source (MCP `BlobResourceContents`)."""

    uri: str
    mimeType: str | None = None  # noqa: N815
    blob: str


class EmbeddedResource(Contract):
    """A resource included in the answer (MCP `EmbeddedResource`)."""

    type: Literal["resource"] = "resource"
    resource: BlobResource


class ResourceLink(Contract):
    """A link to a resource (MCP `ResourceLink`). `size` in bytes."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    name: str
    mimeType: str | None = None  # noqa: N815
    size: int | None = None


Content = Annotated[
    TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink, Field(discriminator="type")
]
"""One block of an answer, in MCP's shapes."""


class ToolResult(Contract):
    """The answer of a tool. A tool that fails answers too: `is_error` is set, and `error` describes the failure."""

    content: tuple[Content, ...] = ()
    raw_content: tuple[dict[str, JsonValue], ...] | None = Field(
        default=None, description="Content blocks of a proxied MCP server, passed on unchanged instead of `content`."
    )
    structured: dict[str, JsonValue] | None = None
    is_error: bool = False
    error: ErrorEnvelope | None = None
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    locator: str | None = Field(
        default=None,
        description="Locator of the whole output when it was stored: see `compressed` and `summary` in `structured`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_it_was_recorded(cls, recorded: object) -> object:
        return with_repeated_rows(recorded)

    @field_validator("structured", "meta", mode="wrap")
    @classmethod
    def _as_pydantic_writes_it(cls, value: object, validated: ValidatorFunctionWrapHandler) -> Any:
        """A tool may put dates, decimals and other values of Python there. Raises `UnusableAnswer` for the rest."""
        try:
            return validated(value)
        except ValidationError:
            if isinstance(value, dict | BaseModel):
                return as_json(cast("BaseModel | dict[Any, Any]", value))
            raise

    @property
    def text(self) -> str:
        """The text of the answer, for a model."""
        raw = [text for block in self.raw_content or () if isinstance(text := block.get("text"), str)]
        return "\n".join(raw or [block.text for block in self.content if isinstance(block, TextContent)])

    @property
    def headline(self) -> str | None:
        """The first line of the answer, at most 200 characters."""
        line = self.text.partition("\n")[0]
        return (line if len(line) <= 200 else line[:199] + "…") or None

    @classmethod
    def failed(cls, error: ErrorEnvelope) -> "ToolResult":
        """The answer that carries `error`, readable for a model."""
        lines = [error.message]
        lines += [f"- {violation.path or '(arguments)'}: {violation.message}" for violation in error.violations or ()]
        if error.hint:
            lines.append(error.hint)
        if error.allowed_tools:
            lines.append(f"Available tools: {suggested(error.allowed_tools, error.tool)}")
        return cls(content=(TextContent(text="\n".join(lines)),), is_error=True, error=error)


class OutputOptions(Contract):
    """Storage of the output of one call. Absent options have the server's values."""

    compress: bool = Field(default=True, description="False: the answer contains the whole output, up to a hard limit.")
    threshold_bytes: int | None = Field(
        default=None, ge=0, le=1_048_576, description="Outputs of more bytes (UTF-8) are stored and summarised."
    )
    ttl_seconds: int | None = Field(
        default=None,
        ge=60,
        le=30 * 24 * 3600,
        description="How long a stored output is kept, in seconds; a day by default.",
    )


class CallOptions(Contract):
    """Options of one call that do not depend on the tool."""

    deadline_seconds: int = Field(
        default=DEFAULT_DEADLINE_SECONDS,
        gt=0,
        le=MAX_DEADLINE_SECONDS,
        description="Seconds after which the task fails and its run is aborted.",
    )
    budget: Budget = Budget()
    output: OutputOptions = OutputOptions()
    resurrect: Resurrection | None = Field(
        default=None,
        description="Whether a run of the call that was cut short is resurrected, so that no new run is paid for. "
        "Default: the operator's policy; without one, no.",
    )
    reuse: Reuse | None = Field(
        default=None,
        description="Whether the answer of an identical call by the same caller may be reused. Default: no.",
    )
    until: Until | None = Field(
        default=None,
        description="When the run has produced enough: it is stopped, and the task completes with its output so far.",
    )
    webhooks: tuple[OwnWebhook, ...] = Field(
        default=(),
        max_length=MAX_OWN_WEBHOOKS,
        description="Addresses that receive the events of this task, in addition to the caller's webhooks.",
    )
    run_heartbeat_seconds: PositiveSeconds = Field(
        default=30, description="Seconds without a heartbeat after which another worker follows the run."
    )

    @model_validator(mode="after")
    def _either_told_or_reused(self) -> Self:
        if self.reuse is not None and self.webhooks:
            raise ValueError("a call with `webhooks` is always a new task: leave out `reuse`, or subscribe a webhook")
        return self


class ToolKind(StrEnum):
    """How a loaded tool runs."""

    FUNCTION = "function"
    CONTEXT_FUNCTION = "context_function"
    HANDLER = "handler"
    """Workflow code."""
    CLIENT_PHASE = "client_phase"
    """A step of it runs on the client."""


class AdmittedTool(Contract):
    """A loaded tool as it was when a call of it was made: an open call continues only on a tool that fits."""

    module: str = Field(description="The operator's name for it: `my_tools.py`, or the name of a module.")
    kind: ToolKind
    version: int = 1


class ServerCall(Contract):
    """A call of a tool of an MCP server: all that it needs to know, decided once when it was admitted."""

    server: str
    tool: str = Field(description="Its name on the server.")
    session: SessionScope
    session_key: str = Field(description="Digest of the server and of the id of its session's scope; no secret.")
    repeats_safely: bool = Field(description="Read-only, idempotent, or configured with `retry: always`.")
    idempotency_argument: str | None = Field(default=None, description="This argument gets the id of the task.")
    verify: Verify | None = None
    timeout_seconds: float | None = None
    read_only: bool = False
    destructive: bool = True


class ServerTarget(Contract):
    """A tool of an MCP server with the rules for its calls, as an offered tool has it, and a session of a model."""

    server: str
    tool: str = Field(description="Its name on the server.")
    session: SessionScope | None = Field(default=None, description="None: `conversation` if the call is part of one.")
    repeats_safely: bool = False
    idempotency_argument: str | None = None
    verify: Verify | None = None
    timeout_seconds: float | None = None
    read_only: bool = False
    destructive: bool = True
    needs_approval: bool = False
    config_digest: str = Field(default="", description="`Servers.digest` of the server when the tool was listed.")

    def for_call(self, *, caller_id: str, conversation: str | None, task: str) -> ServerCall:
        """The rules for one call. `conversation` is the id of the caller's session; `task` is one for the call."""
        scope = self.session or "conversation"
        if scope == "conversation" and conversation is None:
            scope = "caller"
        scopes = {"shared": [], "caller": [caller_id], "conversation": [caller_id, conversation]}
        place = json.dumps([self.server, scope, *scopes.get(scope, [task])])
        return ServerCall(
            server=self.server,
            tool=self.tool,
            session=scope,
            session_key=hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()[:32],
            repeats_safely=self.repeats_safely,
            idempotency_argument=self.idempotency_argument,
            verify=self.verify,
            timeout_seconds=self.timeout_seconds,
            read_only=self.read_only,
            destructive=self.destructive,
        )

    def ruling(self, ruling: PermissionRuling | None) -> PermissionRuling | None:
        """The verdict of the operator's rules, and of the servers file: an approval that it requires is required."""
        if not self.needs_approval or (ruling is not None and ruling.action != "allow"):
            return ruling
        return PermissionRuling(action="ask", rule=f"`approve` of the MCP server {self.server}")


class ResurrectedTask(Contract):
    """An ended task whose run a call resurrects instead of starting one."""

    task_id: str
    run: RunState = Field(description="Its final state.")
    entry_id: str = Field(description="Id of its ledger entry.")
    produced: Production = Field(
        default=Production(), description="Its production at the latest resurrection, which it must exceed now."
    )
    budget: Budget = Field(default=Budget(), description="Limits that replace those of the call.")
    build: str | None = None
    memory_mbytes: int | None = None
    is_forced: bool = Field(default=False, description="Whether a run without new output is resurrected, too.")
    starts_anew: bool = Field(default=False, description="Whether another run is started if it cannot be resurrected.")


class ToolCall(Contract):
    """One tool call, validated and with its caller resolved: the input of ToolCallWorkflow."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    mode: str = "default"
    caller: Caller
    session_id: str | None = None
    message_id: str | None = Field(default=None, description="Id of the conversation's message that requested it.")
    tool_call_id: str | None = Field(default=None, description="The model's own id of the call.")
    changes: tuple[str, ...] = Field(
        default=(), description="Conversions of arguments that did not fit the schema, for the reader of the answer."
    )
    actor: str | None = Field(default=None, description="For a direct Actor tool: the Actor behind it, as `user/name`.")
    run_memory_mbytes: int | None = Field(
        default=None, description="For a direct Actor tool: memory of its run; None: the Actor's default."
    )
    options: CallOptions = CallOptions()
    payment: SealedSecret | None = Field(default=None, description="Payment for the call in place of the account.")
    pays_with: str | None = Field(
        default=None, description="Payment scheme of the caller's connection; also set for free tools."
    )
    output: OutputPolicy = Field(default=OutputPolicy(), description="Storage of its output; set by the server.")
    offered_tools: tuple[str, ...] = Field(
        default=(), description="Tools that the caller's connection offers, for hints; empty when it offers all."
    )
    tool_mask: dict[str, bool] | None = Field(default=None, description="Active tools, by original name; None: all.")
    permission: PermissionRuling | None = Field(default=None, description="Absent if no rule applies to the call.")
    has_approval: bool | None = Field(
        default=None, description="Whether the tool had an approval when the call was made; None in older calls."
    )
    admitted_tool: AdmittedTool | None = Field(
        default=None, description="None for tools of Outlast, and in older calls."
    )
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")
    batch_id: str | None = Field(default=None, description="The batch whose item it is.")
    resurrects: ResurrectedTask | None = Field(default=None, description="The task whose run it resurrects.")
    schedule_id: str | None = Field(default=None, description="Name of the schedule that started it.")
    listeners: tuple[WebhookListener, ...] = Field(default=(), description="Webhooks that receive its events.")
    inner: InnerCalls | None = Field(
        default=None, description="Rules for calls that its function makes; absent if it cannot make any."
    )
    server: ServerCall | None = Field(default=None, description="For a tool of an MCP server of the operator's file.")

    @property
    def is_paid(self) -> bool:
        """True if a payment that came with the call pays for it, and no account does."""
        return self.payment is not None or self.caller.payment is not None

    @property
    def proxies_mcp(self) -> bool:
        """True for a tool of an Actor that is an MCP server: `actor` is `user/name:tool` then."""
        return self.actor is not None and ":" in self.actor


def changed_budget(budget: Budget, changes: Budget) -> Budget:
    """`budget` with the limits that `changes` has."""
    return budget.model_copy(update=changes.model_dump(exclude_none=True))


Offers = Callable[[str], bool]
"""Returns True if the caller's connection offers a tool. Hints name only offered tools."""


def offers_all(_tool: str) -> bool:
    """`Offers` for callers that may call every tool."""
    return True


class TaskResolution(Contract):
    """What a person found out about a call of which it was unknown whether it had been executed."""

    outcome: Literal["done", "not_done", "retry"] = Field(
        description="`done`: it was executed; `not_done`: it was not; `retry`: it was called again."
    )
    result: JsonValue = Field(default=None, description="With `done`: the result, if it is known.")
    note: ValidText | None = None
    resolved_by: str = Field(description="Id of the caller.")
    resolved_at: datetime
    task_id: str | None = Field(default=None, description="With `retry`: the task that calls the tool again.")


class RecordedRows(Contract):
    """Names the rows that an answer is recorded without: an activity's result in the same history has them."""

    sha256: str = Field(description="Digest of the rows as lines of JSON.")
    text_at: int | None = Field(default=None, description="Their offset in the first text; None if not in it.")


class ToolOutcome(Contract):
    """Result of ToolCallWorkflow: the handler's answer, and how the run it started ended, if it started one."""

    result: ToolResult
    run: RunState | None = None
    seconds: float = Field(default=0.0, description="Time from the call's start until its handler returned.")
    cost_usd: float | None = Field(default=None, description="Cost of its runs; absent if it started none.")
    error_signature: str | None = Field(default=None, description="As in `TaskCompleted`.")

    @property
    def known_cost_usd(self) -> float:
        """Cost of its runs and of the calls that its function made."""
        return _known_cost_usd(self.cost_usd, self.run)

    rows: RecordedRows | None = Field(default=None, description="Rows missing from `result`; absent if complete.")

    def without_rows(self, items: Sequence[JsonValue]) -> "ToolOutcome":
        """This outcome, referring to `items` where the answer's structured form has exactly these rows.

        Its headline stays: lists and events show it without looking for the rows.
        """
        lines, structured = rows_as_lines(items), self.result.structured
        if len(lines) < WORTH_CHARS or structured is None or structured.get("items") != list(items):
            return self
        at = _first_text(self.result).find(lines)
        rows = RecordedRows(sha256=digest_of_rows(lines), text_at=at if at >= 0 else None)
        result = _with_first_text(self.result, lambda text: text.replace(lines, "", 1))
        if result.headline != self.result.headline:
            return self
        result = result.model_copy(update={"structured": {**structured, "items": []}})
        return self.model_copy(update={"result": result, "rows": rows})

    def with_rows(self, items: Sequence[JsonValue]) -> "ToolOutcome":
        """This outcome as it was before `without_rows`. `items` are the rows that `rows` names."""
        at, result = self.rows.text_at if self.rows else None, self.result
        if at is not None:
            result = _with_first_text(result, lambda text: text[:at] + rows_as_lines(items) + text[at:])
        result = result.model_copy(update={"structured": {**(result.structured or {}), "items": list(items)}})
        return self.model_copy(update={"result": result, "rows": None})


def _first_text(result: ToolResult) -> str:
    first = result.content[0] if result.content else None
    return first.text if isinstance(first, TextContent) else ""


def _with_first_text(result: ToolResult, change: Callable[[str], str]) -> ToolResult:
    if not _first_text(result):
        return result
    first = TextContent(text=change(_first_text(result)))
    return result.model_copy(update={"content": (first, *result.content[1:])})


class CallRefused(Contract):
    """A call of a session without a task: the tool is unknown or switched off, or its arguments are wrong."""

    tool: str
    error: ErrorEnvelope
    error_signature: str | None = Field(
        default=None, description="As in `TaskCompleted`; absent for a call that the output limit cut off."
    )
    turn_id: str | None = Field(default=None, description="The turn whose model made the call.")


RUN_STOPPED_SIGNAL = "run_stopped"
"""Signal from a cancelled tool call to the turn or the call that made it."""


class RunStopped(Contract):
    """Cost of a cancelled call, and its latest run."""

    task_id: str
    run: RunState | None = None
    cost_usd: float | None = Field(default=None, description="As in `ToolOutcome`; absent if an older worker sent it.")

    @property
    def known_cost_usd(self) -> float:
        """Cost of its runs and of the calls that its function made."""
        return _known_cost_usd(self.cost_usd, self.run)


def _known_cost_usd(cost_usd: float | None, run: RunState | None) -> float:
    """The cost; if an older worker recorded none, that of the latest run."""
    if cost_usd is not None:
        return cost_usd
    return (run.usage_total_usd or 0.0) if run is not None else 0.0


class TaskCompleted(Contract):
    """The task-completed signal: fires when the tool's handler returns, which may be before its run has ended."""

    task_id: str
    tool: str
    status: TaskStatus
    error_signature: str | None = Field(
        default=None, description="Same for failures of the same tool, category and message; absent on success."
    )
    error: ErrorEnvelope | None = Field(default=None, description="Absent on success.")
    message: str | None = Field(default=None, description="The answer's first line, at most 200 characters.")
    locator: str | None = Field(default=None, description="Locator of the output if it was stored.")
    cost_usd: float | None = Field(default=None, description="Cost of its runs so far; absent if it started none.")

    @classmethod
    def by(cls, outcome: ToolOutcome, *, task_id: str, tool: str) -> Self:
        """End of a task, from the `outcome` of its workflow."""
        result = outcome.result
        return cls(
            task_id=task_id,
            tool=tool,
            status=TaskStatus.FAILED if result.is_error else TaskStatus.COMPLETED,
            error_signature=outcome.error_signature,
            error=result.error,
            message=result.headline,
            locator=result.locator,
            cost_usd=outcome.cost_usd,
        )


class Progress(Contract):
    """The progress of a handler, in its own unit."""

    done: float = Field(allow_inf_nan=False)
    total: float | None = Field(default=None, allow_inf_nan=False)
    message: ValidText


class TaskSummary(Contract):
    """Summary in a task's memo from its start, so that the task is readable without a worker."""

    tool: str
    mode: str
    executor: Literal["none", "sync", "async"]
    actor: str | None = None
    session_id: str | None = None
    created_at: datetime
    fingerprint: str = Field(description="Digest of the request, to detect repeated requests.")
    resurrects: str | None = Field(default=None, description="Id of the task whose run it resurrects.")
    again_of: str | None = Field(default=None, description="Id of the task whose call it repeats.")
    admitted_tool: AdmittedTool | None = Field(default=None, description="As in `ToolCall`.")
    called_by: str | None = Field(default=None, description="Id of the task whose function made the call.")
    request_key: str | None = Field(
        default=None, description="The task's id by its idempotency key, if its own id is the one of reusable calls."
    )


ROWS_AT = "rows_at"
WORTH_CHARS = 200
"""Fewer characters of rows are recorded twice: the mark costs some too."""


def rows_as_lines(items: Iterable[JsonValue]) -> str:
    """One JSON value per line, without spaces: they cost tokens."""
    return "\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items)


def digest_of_rows(rows: str) -> str:
    """SHA-256 of rows as lines, by which an outcome refers to them."""
    return hashlib.sha256(rows.encode(errors="surrogatepass")).hexdigest()


def without_repeated_rows(result: dict[str, Any]) -> dict[str, Any]:
    """The recorded form of a result: as it is unless its first text holds exactly the rows of its structured form."""
    match result:
        case {
            "content": [{"type": "text", "text": str(text)} as first, *others],
            "structured": {"items": [*items]},
        }:
            rows = rows_as_lines(cast(list[JsonValue], items))
            at = text.find(rows) if len(rows) >= WORTH_CHARS else -1
            if at < 0:
                return result
            shortened = {**first, "text": text[:at] + text[at + len(rows) :]}
            recorded = {**result, "content": [shortened, *others], ROWS_AT: at}
        case _:
            return result
    # Rows whose JSON is written in another way when it was read once stay in the text.
    return recorded if with_repeated_rows(from_json(to_json(recorded))) == result else result


def with_repeated_rows(recorded: Any) -> Any:
    """A result as it was before it was recorded; anything else is returned as it is."""
    match recorded:
        case {
            "rows_at": int(at),
            "content": [{"text": str(text)} as first, *others],
            "structured": {"items": [*items]},
        }:
            rows = rows_as_lines(cast(list[JsonValue], items))
            whole = {**first, "text": text[:at] + rows + text[at:]}
            result = {key: value for key, value in cast(dict[str, Any], recorded).items() if key != ROWS_AT}
            return {**result, "content": [whole, *others]}
        case _:
            return recorded
