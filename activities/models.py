"""Contracts of the activities: what goes in, what comes out.

Every model is frozen and free of I/O imports, so that workflow code may use it. A field added later gets a default:
inputs recorded by an older version must stay readable.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

FINAL_RUN_STATUSES = frozenset({"SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"})
"""Run states after which the platform neither changes nor charges the run (Apify API v2, run object, `status`)."""


class Contract(BaseModel):
    """Base of every model that crosses a boundary: frozen, and tolerant of fields a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ErrorCategory(StrEnum):
    """What kind of failure a tool error is. The values are part of the public contract."""

    NETWORK = "network"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    CAPACITY = "capacity"
    PERMISSION = "permission"
    AUTHENTICATION = "authentication"
    PAYMENT = "payment"
    VALIDATION = "validation"
    NOT_FOUND = "not_found"
    FILESYSTEM = "filesystem"
    CONFLICT = "conflict"
    PLATFORM = "platform"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Violation(Contract):
    """One way in which arguments break a schema."""

    path: str = Field(description="JSON Pointer (RFC 6901) to the offending value; empty for the arguments themselves.")
    message: str

    @classmethod
    def at(cls, parts: Iterable[str | int], message: str) -> "Violation":
        """The violation of the value that `parts`, names and indices from the outside in, lead to."""
        escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return cls(path="".join(f"/{part}" for part in escaped), message=message)


class ErrorEnvelope(Contract):
    """The one form of a tool error, wherever it is seen: REST, events, answers to a model.

    `message` carries no secret and at most 2,000 characters.
    """

    tool: str
    message: str
    category: ErrorCategory
    retryable: bool
    attempt: int = Field(default=1, description="Which attempt failed; the first is 1.")
    hint: str | None = Field(default=None, description="What to do about it.")
    allowed_tools: tuple[str, ...] | None = None
    violations: tuple[Violation, ...] | None = None


class SealedSecret(Contract):
    """A secret as it may stand in a history: AES-256-GCM under the key `key_id`, see `activities.secrets`."""

    key_id: str
    ciphertext: str = Field(description="Base64 of nonce and ciphertext.")


class Caller(Contract):
    """Who asks for a tool. `id` scopes everything the caller can see and is not a secret."""

    id: str
    apify_token: SealedSecret | None = Field(
        default=None, description="The caller's own Apify token; absent means the operator's token pays."
    )


class Budget(Contract):
    """What one task may cost at most. An absent limit does not limit."""

    max_total_charge_usd: Decimal | None = Field(
        default=None, gt=0, description="Money the run may cost, in US dollars."
    )
    max_items: int | None = Field(default=None, gt=0, description="Dataset items the run may produce.")
    max_run_seconds: int | None = Field(default=None, gt=0, description="Time the run may take, in seconds.")


class RunSpec(Contract):
    """A run to be started (Apify API v2, `POST /v2/acts/:actorId/runs`)."""

    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")
    input: JsonValue = None
    build: str | None = None
    memory_mbytes: int | None = None
    budget: Budget = Budget()


class StartRunInput(Contract):
    """Order to start one paid run, at most once for `operation_id`, whatever fails."""

    caller: Caller
    spec: RunSpec
    payment: SealedSecret | None = Field(default=None, description="What pays for the run instead of the account.")
    operation_id: str = Field(description="Marks the run on the platform, so that a lost start is recognised.")


class RunRef(Contract):
    """Points at a run on behalf of a caller."""

    caller: Caller
    run_id: str


class WaitRunInput(RunRef):
    """Order to follow a run to its end, or to the end of its budget."""

    budget: Budget = Budget()
    rows_within_bytes: int | None = Field(
        default=None, description="Bring the run's rows along when all of them fit into this size."
    )


class AbortRunInput(Contract):
    """Order to leave no run of an operation running.

    With `run_id` that run is aborted. Without, the runs marked with `operation_id` are looked for on `actor`, since
    the start's answer may have been lost.
    """

    caller: Caller
    run_id: str | None = None
    actor: str | None = None
    operation_id: str | None = None
    since: datetime | None = Field(default=None, description="When the operation began; its runs are younger.")
    gracefully: bool = False


class RunState(Contract):
    """A run as the platform described it at one moment."""

    run_id: str
    actor_id: str
    actor_name: str | None = None
    status: str
    status_message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    dataset_id: str
    key_value_store_id: str
    build_number: str | None = None
    exit_code: int | None = None
    usage_total_usd: float | None = None
    stats: dict[str, JsonValue] = {}
    console_url: str | None = None
    adopted: bool = Field(default=False, description="True when a lost start was recognised instead of repeated.")
    over_budget: Literal["money", "time"] | None = Field(
        default=None, description="Which limit of the budget the run has reached while still running."
    )

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.status in FINAL_RUN_STATUSES


class AbortResult(Contract):
    """Runs that were aborted or found already ended; empty when none had been started."""

    runs: tuple[RunState, ...] = ()


class DatasetItemsInput(Contract):
    """Order for one page of a dataset (Apify API v2, `GET /v2/datasets/:id/items`)."""

    caller: Caller
    dataset_id: str
    offset: int = 0
    limit: int = 100
    fields: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    flatten: tuple[str, ...] = Field(default=(), description="Object fields to spread into `field.inner` fields.")
    paths: tuple[str, ...] = Field(default=(), description="Of each row only these dot paths, as one flat object.")
    clean: bool = False
    desc: bool = False
    max_bytes: int = Field(default=65_536, description="The page ends before the row that would exceed this size.")
    max_text_chars: int | None = Field(default=None, description="Cut longer texts and lists, for a preview.")
    expect_items: bool = Field(default=False, description="Probe again before reporting an empty dataset: counts lag.")
    whole: bool = Field(default=False, description="Give no rows at all when some of the dataset do not fit.")
    describe_run_store: str | None = Field(
        default=None,
        description="A run's key-value store: the page then names its keys and has the schema of the rows read.",
    )
    describe_run_actor: str | None = Field(
        default=None, description="Id of a run's Actor, besides `describe_run_store`: the page then has its name."
    )


class DatasetPage(Contract):
    """One page of a dataset. `rows_cut` rows of the requested page did not fit into `max_bytes`."""

    dataset_id: str
    items: tuple[JsonValue, ...]
    offset: int
    limit: int
    total: int
    fields: tuple[str, ...] = ()
    rows_cut: int = 0
    rows_read: int | None = Field(default=None, description="Rows the page spans, those included that `clean` hides.")
    size_bytes: int = 0
    items_schema: dict[str, JsonValue] | None = Field(
        default=None, description="What the rows read have in common, as far as 700 bytes can say it. Uncut rows."
    )
    keys: tuple[str, ...] | None = Field(
        default=None, description="The first 20 keys of the run's store; None when they could not be listed."
    )
    actor_name: str | None = Field(default=None, description="The run's Actor as `user/name`, where it was asked for.")

    @property
    def end(self) -> int:
        """Offset of the first row after the page."""
        return self.offset + (len(self.items) if self.rows_read is None else self.rows_read)


class RunLogInput(RunRef):
    """Order for the last lines of a run's log."""

    lines: int = 50
    max_bytes: int = 32_768


class RunLog(Contract):
    """The tail of a run's log."""

    run_id: str
    text: str
    lines: int
    total_lines: int


class EndedRun(RunState):
    """A run that was followed to its end, and what it left behind, where that was asked for and could be read.

    `rows` has no items when they do not fit, but how many there are.
    """

    rows: DatasetPage | None = None
