"""Status of a server (open tasks, queues and workers), and the spending of its callers."""

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.spending.contracts import SpendingCaps
from outlast.contracts.base import Open, Response, absent
from outlast.workflows.contracts.tool_calls import TaskStatus


class Links(Response):
    """Addresses of the pages beside the API; absent where the operator has set none."""

    temporal_ui: str | None = None
    grafana: str | None = None


class Me(Response):
    """The caller that a credential belongs to, its rights and limits, and the server."""

    caller: str
    key_id: str | None = Field(default=None, description="Id of the API key in the policy, if it is one.")
    expires_at: datetime | None = Field(default=None, description="When the key or access token expires.")
    scopes: tuple[str, ...]
    roles: Annotated[tuple[str, ...], absent(())] = Field(description="Its roles as an approver.")
    models: Annotated[tuple[str, ...], absent(())] = Field(description="Models that its sessions may use.")
    spending: SpendingCaps = Field(
        default=SpendingCaps(), description="Its spending limits. `GET /v1/usage` shows what is left of them."
    )
    limits: Annotated[dict[str, float], absent({})] = Field(
        description="Its limits, by their names in the policy file."
    )
    version: str = Field(description="The server's version.")
    namespace: str = Field(description="The namespace in Temporal.")
    links: Links


class HealthCheck(Response):
    """A finding about one part, and its remedy."""

    name: str
    health: Open[Literal["ok", "warn", "fail", "skip"]]
    finding: str
    advice: str | None = None


class HealthReport(Response):
    """The state of all parts that the API can check."""

    ok: bool = Field(description="Whether no check fails.")
    checks: tuple[HealthCheck, ...]


class PolicyExplanation(Response):
    """What the policy decides about a call."""

    caller: str
    tool: str
    actor: str | None = None
    action: Open[Literal["allow", "ask", "deny"]]
    rule: str | None = Field(default=None, description="The rule that decides; absent if none is about the call.")
    names: Annotated[tuple[str, ...], absent(())] = Field(description="Names by which rules mean the call.")
    approvers: Annotated[tuple[str, ...], absent(())] = Field(
        description="With `ask`: roles that another caller must have; empty if anyone may approve."
    )
    held_by: Annotated[tuple[str, ...], absent(())] = Field(description="Callers with these roles.")
    spending: SpendingCaps = Field(default=SpendingCaps(), description="Spending limits of the caller.")


class TaskCounts(Response):
    """Number of tasks in each state."""

    queued: Annotated[int, absent(0)]
    working: Annotated[int, absent(0)]
    input_required: Annotated[int, absent(0)]
    answered: Annotated[int, absent(0)] = Field(description="Answered tasks whose run continues.")
    completed_last_hour: Annotated[int, absent(0)]
    failed_last_hour: Annotated[int, absent(0)]
    cancelled_last_hour: Annotated[int, absent(0)]


class OpenTask(Response):
    """One open task, without its content."""

    id: str
    tool: str
    caller: str
    actor: str | None = None
    status: Open[TaskStatus]
    started_at: datetime


class QueueState(Response):
    """One task queue of Temporal."""

    queue: str
    kind: Open[Literal["workflows", "activities"]]
    backlog: Annotated[int, absent(0)] = Field(description="Approximate number of steps that wait for a worker.")
    oldest_seconds: Annotated[float, absent(0.0)] = Field(description="How long the first of them has waited.")
    added_per_second: Annotated[float, absent(0.0)]
    taken_per_second: Annotated[float, absent(0.0)]
    pollers: Annotated[int, absent(0)] = Field(
        description="Workers (of `outlast-schedules`: APIs) that polled in the last minutes."
    )


class WorkerState(Response):
    """One worker process, as of its latest poll."""

    identity: str = Field(description="`PID@HOST/XXXX`; the last part differs for each process.")
    version: str | None = Field(
        default=None, description="Its deployment's build id; without worker versioning, a digest of its code."
    )
    queues: Annotated[tuple[str, ...], absent(())]
    last_seen_at: datetime


class Operations(Response):
    """Current status of the server."""

    at: datetime
    scope: Open[Literal["own", "all"]] = Field(description="Whose tasks these are: `all` with the scope `admin`.")
    counts: TaskCounts
    tasks: Annotated[tuple[OpenTask, ...], absent(())] = Field(description="Open tasks, newest first, at most 50.")
    queues: Annotated[tuple[QueueState, ...], absent(())] = Field(description="With the scope `admin`; else empty.")
    workers: Annotated[tuple[WorkerState, ...], absent(())] = Field(description="With the scope `admin`; else empty.")


class CallerHoldings(Response):
    """Resources of a caller that outlast a request, and remain when its keys are revoked."""

    caller: str
    webhooks: Annotated[tuple[str, ...], absent(())] = Field(
        description="Ids of its webhooks, which still receive events of its tasks."
    )
    schedules: Annotated[tuple[str, ...], absent(())] = Field(
        description="Ids of its schedules, at most 200. They start nothing while it has no key that permits it."
    )
    saved_calls: Annotated[tuple[str, ...], absent(())] = Field(description="Names of its saved calls.")
    open_tasks: Annotated[int, absent(0)] = Field(description="Its tasks that have not ended. They continue.")
    open_streams: Annotated[int, absent(0)] = Field(
        description="Its open streams at the API process that answers. A stream ends when its key is revoked."
    )


class Readiness(Response):
    """Readiness for tasks, and the reasons if not ready."""

    ready: bool
    checks: dict[str, Open[Literal["ok", "failing"]]]


Grouping = Literal["caller", "tool", "actor", "model", "session", "day", "payer"]

Name = Annotated[str, Field(min_length=1, max_length=200)]


class UsageQuery(BaseModel):
    """Selection and grouping of usage entries. Days are in UTC."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    first_day: date | None = Field(
        default=None, alias="from", description="First day, such as `2026-11-01`; by default the first of this month."
    )
    last_day: date | None = Field(default=None, alias="to", description="Last day; by default today.")
    by: tuple[Grouping, ...] = Field(
        default=("day",),
        description="What the rows are grouped by: `caller`, `tool`, `actor`, `model`, `session`, "
        "`day`, `payer`; several are given as `by=day&by=tool`.",
    )
    tool: Name | None = Field(default=None, description="Only this tool.")
    actor: Name | None = Field(default=None, description="Only this Actor, as `user/name`.")
    session_id: Name | None = Field(default=None, description="Only this session.")
    caller: Name | None = Field(
        default=None, description="Another caller, or `*` for all; requires the permission to see them."
    )
    format: Literal["json", "csv"] | None = Field(default=None, description="`csv`, as with `Accept: text/csv`.")
    csv_safe: bool = Field(
        default=True,
        description="For CSV: precede text that a spreadsheet would evaluate (it begins with `=`, `+`, `-` or `@`) "
        "with an apostrophe.",
    )


class UsageRow(Response):
    """Cost of one group. Only the requested groupings are set; None is "none"."""

    caller: str | None = None
    tool: str | None = None
    actor: str | None = None
    model: str | None = Field(default=None, description="`provider/model`, for calls of models.")
    session: str | None = None
    day: date | None = None
    payer: Open[Literal["operator", "caller", "payment"]] | None = Field(
        default=None,
        description="Who paid: the operator's account, the caller's own Apify account, or a payment that came with the "
        "call (Skyfire).",
    )
    runs: Annotated[int, absent(0)] = Field(description="Runs that have ended.")
    model_calls: Annotated[int, absent(0)] = Field(description="Calls of models with a price.")
    cost_usd: Annotated[float, absent(0.0)]


class CapUsage(Response):
    """Current use of a spending limit."""

    cap: Open[Literal["day", "month"]]
    cap_usd: float | None = Field(default=None, description="Null if there is no limit.")
    spent_usd: Annotated[float, absent(0.0)] = Field(description="Cost, excluding payments that came with calls.")
    reserved_usd: Annotated[float, absent(0.0)] = Field(description="Money reserved by runs that have not ended.")
    left_usd: float | None = None
    resets_at: datetime


class CallerCaps(Response):
    """Current use of the spending limits of one caller."""

    caller: str
    caps: tuple[CapUsage, ...]


class UsageReport(Response):
    """Spending in a range of days."""

    first_day: date
    last_day: date
    total_usd: float
    rows: Annotated[tuple[UsageRow, ...], absent(())] = Field(
        description="Most expensive first; by day if grouped by day only."
    )
    caps: tuple[CapUsage, ...] = Field(
        default=(), description="The current spending limits, if the report is about one caller."
    )
    callers: tuple[CallerCaps, ...] = Field(
        default=(), description="The same for each caller that has spent money, if the report is about all callers."
    )
    damaged: int = Field(
        default=0,
        description="Minimum number of stored records that cannot be read: the sums do not include their cost.",
    )
