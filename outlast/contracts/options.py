"""Options of calls, batches, saved calls, schedules, sessions and messages, each declared once.

Every field of these dictionaries carries an `Option`: its help text, its place in the body of a REST request, and how
the command line and the documentation show it. `to_wire` makes the body. An option that is left out, or None, is not
sent: the server's default applies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast, get_args

from pydantic import JsonValue

from outlast.suggestions import suggested

if TYPE_CHECKING:
    from outlast.workflows.contracts.sessions import Budgets

LIMITS, REUSE, OUTPUT, CONTEXT, ITEMS, TIMES = "Limits", "Reuse", "Output", "Context", "Items", "Times"
"""Panels: groups of options in help texts and tables."""

Body = dict[str, JsonValue]


def plain(value: Any) -> JsonValue:
    """Encode a value as JSON: mappings, sequences and models in any depth."""
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(member) for member in cast(Sequence[Any], value)]
    return value


def dollars(value: float) -> JsonValue:
    """Encode US dollars as a decimal text, which loses nothing on the way."""
    return str(value)


def whole_seconds(value: float) -> JsonValue:
    """Encode a duration, at least one second."""
    return max(1, round(value))


def seconds_or_none(value: float) -> JsonValue:
    """Encode a duration that may be zero."""
    return round(value)


def if_set(value: bool) -> JsonValue:
    """Encode a flag: False is the same as leaving it out."""
    return value or None


def moment(value: datetime) -> JsonValue:
    """Encode a time with its time zone; a time without one is local time."""
    return value.astimezone().isoformat()


def one_or_more(value: str | Sequence[str]) -> JsonValue:
    """Encode one text, or several, as a list."""
    return [value] if isinstance(value, str) else list(value)


def one_interval(value: float) -> JsonValue:
    """Encode an interval, in seconds."""
    return [{"seconds": round(value)}]


def saved_call(value: str | Mapping[str, JsonValue]) -> JsonValue:
    """Encode a saved call: its name, or its name with arguments."""
    return {"name": value} if isinstance(value, str) else dict(value)


def session_budgets(value: "Budgets") -> JsonValue:
    """Encode the budgets of a session or of a turn."""
    return cast(JsonValue, value.document())


def non_empty(value: Sequence[Any]) -> JsonValue:
    """Encode a list; an empty one is the same as leaving it out."""
    return plain(value) or None


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `help` is one or two sentences, in Markdown."""

    help: str
    wire: str | None = None
    """Dotted path in the body of the request; None for what is not part of the body."""
    encode: Callable[[Any], JsonValue] = plain
    """From the value to JSON. None leaves the option out."""
    flag: str | None = None
    """Flag of the command line, such as `--max-usd`; None where the command line does not offer the option."""
    metavar: str | None = None
    """Placeholder of the value in help texts."""
    panel: str | None = None
    """The group that the option is shown in."""
    min: float | None = None
    max: float | None = None
    """Bounds of a number, inclusive. The server checks them."""
    for_models: bool = True
    """True if a model may set it as an argument of a tool; otherwise only the calling program."""


class SharedOptions(TypedDict, total=False):
    """Options that calls, saved calls and the items of batches have in common."""

    mode: Annotated[
        str | None,
        Option(
            "`default` waits for runs to end, `openai` answers once they have started.",
            wire="mode",
            flag="--mode",
            for_models=False,
        ),
    ]
    deadline_seconds: Annotated[
        float | None,
        Option(
            "The task fails after this time, and its run is aborted.",
            wire="options.deadline_seconds",
            encode=whole_seconds,
            flag="--deadline",
            metavar="TIME",
            panel=LIMITS,
            min=1,
            max=30 * 24 * 3600,
        ),
    ]
    max_usd: Annotated[
        float | None,
        Option(
            "Maximum cost of the run, in US dollars.",
            wire="options.budget.max_total_charge_usd",
            encode=dollars,
            flag="--max-usd",
            metavar="USD",
            panel=LIMITS,
            min=0,
        ),
    ]
    max_items: Annotated[
        int | None,
        Option(
            "Maximum number of rows of the run.",
            wire="options.budget.max_items",
            flag="--max-items",
            metavar="ROWS",
            panel=LIMITS,
            min=1,
        ),
    ]
    max_run_seconds: Annotated[
        float | None,
        Option(
            "Maximum duration of the run.",
            wire="options.budget.max_run_seconds",
            encode=whole_seconds,
            flag="--max-run-time",
            metavar="TIME",
            panel=LIMITS,
            min=1,
        ),
    ]
    until: Annotated[
        Mapping[str, JsonValue] | None,
        Option(
            "Stops the run when it has produced enough: `rows`, `expression` with `matches`, or `usd`; any of them.",
            wire="options.until",
            flag="--until",
            metavar="CONDITION",
            panel=LIMITS,
        ),
    ]
    resurrect: Annotated[
        int | None,
        Option(
            "How often a run that is cut short may be resurrected, so that no new run is paid for; 0 for never.",
            wire="options.resurrect.max_times",
            flag="--resurrect",
            metavar="TIMES",
            panel=LIMITS,
            min=0,
            max=10,
        ),
    ]
    compress: Annotated[
        bool | None,
        Option(
            "False keeps a large output in the answer, up to the server's limit.",
            wire="options.output.compress",
            flag="--compress",
            panel=OUTPUT,
        ),
    ]
    threshold_bytes: Annotated[
        int | None,
        Option(
            "Outputs of more bytes are stored and summarised.",
            wire="options.output.threshold_bytes",
            flag="--threshold-bytes",
            metavar="BYTES",
            panel=OUTPUT,
            min=0,
            max=1_048_576,
        ),
    ]
    keep_output_seconds: Annotated[
        float | None,
        Option(
            "How long stored outputs are kept; of a batch, its results too.",
            wire="options.output.ttl_seconds",
            encode=whole_seconds,
            flag="--keep-output",
            metavar="TIME",
            panel=OUTPUT,
            min=60,
            max=30 * 24 * 3600,
        ),
    ]
    run_heartbeat_seconds: Annotated[
        float | None,
        Option(
            "Seconds without a heartbeat after which another worker follows the run.",
            wire="options.run_heartbeat_seconds",
            encode=whole_seconds,
            panel=LIMITS,
            min=1,
            for_models=False,
        ),
    ]
    tool_mask: Annotated[
        Mapping[str, bool] | None,
        Option('Tools that may be called: `{"get-actor-run": true}`.', wire="toolMask", for_models=False),
    ]


class SavedCallOptions(SharedOptions, total=False):
    """Options of a saved call."""

    note: Annotated[str | None, Option("The purpose of the saved call; any text.", wire="note", flag="--note")]


class StartOptions(SharedOptions, total=False):
    """Options that only calls and batches have that start now."""

    reuse: Annotated[
        str | None,
        Option(
            "Reuse the answer of an identical call that is running, or not older than this: `90s`, `6h`, `7d`.",
            wire="options.reuse.max_age",
            flag="--reuse",
            metavar="AGE",
            panel=REUSE,
        ),
    ]
    refresh: Annotated[
        bool | None,
        Option(
            "Always start the call; later identical calls may reuse its answer.",
            wire="options.reuse.refresh",
            encode=if_set,
            flag="--refresh",
            panel=REUSE,
        ),
    ]
    idempotency_key: Annotated[
        str | None,
        Option(
            "The same key with the same request gives the same task or batch. Default: a new key.",
            flag="--idempotency-key",
            metavar="KEY",
            for_models=False,
        ),
    ]


class CallOptions(StartOptions, total=False):
    """Options of one call."""

    session_id: Annotated[
        str | None,
        Option(
            "Conversation that the call belongs to.",
            wire="session_id",
            flag="--session",
            metavar="ID",
            panel=CONTEXT,
            for_models=False,
        ),
    ]
    message_id: Annotated[
        str | None,
        Option(
            "Message of the conversation that contains the call.",
            wire="message_id",
            panel=CONTEXT,
            for_models=False,
        ),
    ]
    tool_call_id: Annotated[
        str | None,
        Option("The model's own id of the call.", wire="tool_call_id", panel=CONTEXT, for_models=False),
    ]
    webhooks: Annotated[
        Sequence[Mapping[str, JsonValue]] | None,
        Option(
            "Addresses that receive events of this task: `url`, `secret` (`whsec_...`), and `events` if not all.",
            wire="options.webhooks",
            encode=non_empty,
            flag="--webhook",
            metavar="JSON",
            for_models=False,
        ),
    ]


class BatchOptions(StartOptions, total=False):
    """Options of a batch; limits on runs apply to each item."""

    name: Annotated[str | None, Option("A name for people; any text.", wire="name", flag="--name")]
    concurrency: Annotated[
        int | None,
        Option(
            "Maximum number of concurrent items. Default: 10.",
            wire="concurrency",
            flag="--concurrency",
            metavar="ITEMS",
            panel=LIMITS,
            min=1,
            max=1_000,
        ),
    ]
    order: Annotated[
        str | None,
        Option(
            "Order of the rows: `given`, that of the items, or `any`, as the items end.",
            wire="order",
            flag="--order",
        ),
    ]
    retries: Annotated[
        Mapping[str, int] | None,
        Option(
            "By category of error: how often an item that fails with it is retried.",
            wire="retries",
            flag="--retry",
            metavar="CATEGORY=N",
        ),
    ]
    budget_usd: Annotated[
        float | None,
        Option(
            "Maximum cost of all items together, in US dollars.",
            wire="budget_usd",
            encode=dollars,
            flag="--budget",
            metavar="USD",
            panel=LIMITS,
            min=0,
        ),
    ]
    stop: Annotated[
        Mapping[str, JsonValue] | None,
        Option(
            "Stop conditions: `failures`, `failure_share`, `categories`, `seconds`, `completed`, `rows`, `under_way`.",
            wire="stop",
            flag="--stop",
            metavar="RULE=VALUE",
            panel=LIMITS,
        ),
    ]
    mapping: Annotated[
        Mapping[str, str] | None,
        Option(
            "For rows: maps arguments (dot paths) to the fields of a row (dot paths) that they take their values from.",
            wire="mapping",
            flag="--map",
            metavar="NAME=FIELD",
            panel=ITEMS,
        ),
    ]
    key: Annotated[
        str | None,
        Option(
            "For rows: the field of a row that is its item's key.",
            wire="key",
            flag="--key",
            metavar="FIELD",
            panel=ITEMS,
        ),
    ]
    delimiter: Annotated[
        str | None,
        Option(
            "Delimiter of CSV: comma, semicolon, bar or tab. Default: detected.",
            wire="delimiter",
            flag="--delimiter",
            panel=ITEMS,
        ),
    ]
    webhooks: Annotated[
        Sequence[Mapping[str, JsonValue]] | None,
        Option(
            "Addresses that receive events of the batch: `url`, `secret` (`whsec_...`), and `events` if not all.",
            wire="webhooks",
            encode=non_empty,
            flag="--webhook",
            metavar="JSON",
            for_models=False,
        ),
    ]
    item_webhooks: Annotated[
        Sequence[Mapping[str, JsonValue]] | None,
        Option(
            "Addresses that receive the events of each item.",
            wire="options.webhooks",
            encode=non_empty,
            for_models=False,
        ),
    ]


class BatchChanges(TypedDict, total=False):
    """Settings that change when a batch is resumed or retried."""

    concurrency: Annotated[
        int | None,
        Option(
            "Maximum number of concurrent items.",
            wire="concurrency",
            flag="--concurrency",
            metavar="ITEMS",
            panel=LIMITS,
            min=1,
        ),
    ]
    budget_usd: Annotated[
        float | None,
        Option(
            "Maximum cost of all items together, in US dollars.",
            wire="budget_usd",
            encode=dollars,
            flag="--budget",
            metavar="USD",
            panel=LIMITS,
            min=0,
        ),
    ]
    stop: Annotated[
        Mapping[str, JsonValue] | None,
        Option("Stop conditions.", wire="stop", flag="--stop", metavar="RULE=VALUE", panel=LIMITS),
    ]
    categories: Annotated[
        Sequence[str] | None, Option("Only items that failed with one of these.", wire="categories", encode=non_empty)
    ]


class ResurrectOptions(TypedDict, total=False):
    """Options of a resurrection of an ended task's run. Limits that are left out stay as they were."""

    max_usd: Annotated[
        float | None,
        Option(
            "Maximum total cost of the run, in US dollars.",
            wire="budget.max_total_charge_usd",
            encode=dollars,
            flag="--max-usd",
            metavar="USD",
            panel=LIMITS,
            min=0,
        ),
    ]
    max_items: Annotated[
        int | None,
        Option(
            "Maximum number of rows of the run.",
            wire="budget.max_items",
            flag="--max-items",
            metavar="ROWS",
            panel=LIMITS,
            min=1,
        ),
    ]
    max_run_seconds: Annotated[
        float | None,
        Option(
            "Maximum duration from now.",
            wire="budget.max_run_seconds",
            encode=whole_seconds,
            flag="--max-run-time",
            metavar="TIME",
            panel=LIMITS,
            min=1,
        ),
    ]
    deadline_seconds: Annotated[
        float | None,
        Option(
            "The new task fails after this time.",
            wire="deadline_seconds",
            encode=whole_seconds,
            flag="--deadline",
            metavar="TIME",
            panel=LIMITS,
            min=1,
        ),
    ]
    build: Annotated[str | None, Option("Another build of the Actor.", wire="build", flag="--build", metavar="BUILD")]
    memory_mbytes: Annotated[
        int | None,
        Option(
            "Memory in megabytes: a power of two.",
            wire="memory_mbytes",
            flag="--memory",
            metavar="MB",
            min=128,
            max=32_768,
        ),
    ]
    force: Annotated[
        bool | None,
        Option(
            "Resurrect the run even if it failed by itself, or produced nothing to continue from.",
            wire="force",
            flag="--force",
            encode=if_set,
        ),
    ]


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule: its target, its times and its limits."""

    call: Annotated[
        Mapping[str, JsonValue] | None,
        Option("A call: `tool`, `arguments`, `mode`, `options`, as for a task.", wire="call", for_models=False),
    ]
    batch: Annotated[
        Mapping[str, JsonValue] | None,
        Option("A batch: the body of `POST /v1/batches`.", wire="batch", for_models=False),
    ]
    saved: Annotated[
        str | Mapping[str, JsonValue] | None,
        Option(
            "A saved call: its name, or its `name` with `arguments` that override its own.",
            wire="saved",
            encode=saved_call,
        ),
    ]
    cron: Annotated[
        str | Sequence[str] | None,
        Option(
            "Cron expressions of five fields: `17 2 * * *`.",
            wire="cron",
            encode=one_or_more,
            panel=TIMES,
        ),
    ]
    every_seconds: Annotated[
        float | None,
        Option("An interval of at least a minute.", wire="every", encode=one_interval, panel=TIMES, min=60),
    ]
    time_zone: Annotated[
        str | None,
        Option("Time zone of the cron expressions: `Europe/Prague`.", wire="time_zone", panel=TIMES),
    ]
    jitter_seconds: Annotated[
        float | None,
        Option(
            "Maximum random delay of each firing.",
            wire="jitter_seconds",
            encode=seconds_or_none,
            panel=TIMES,
            min=0,
            max=24 * 3600,
        ),
    ]
    start_at: Annotated[
        datetime | None, Option("Nothing is due before this time.", wire="start_at", encode=moment, panel=TIMES)
    ]
    end_at: Annotated[
        datetime | None, Option("Nothing is due after this time.", wire="end_at", encode=moment, panel=TIMES)
    ]
    overlap: Annotated[
        str | None,
        Option(
            "What happens if an earlier firing is still running: `skip`, `buffer_one`, `buffer_all`, `cancel_other` "
            "or `allow_all`.",
            wire="overlap",
            panel=TIMES,
        ),
    ]
    catch_up_seconds: Annotated[
        float | None,
        Option(
            "Due times that pass while the server is down are fired up to this much later.",
            wire="catch_up_seconds",
            encode=seconds_or_none,
            panel=TIMES,
            min=60,
            max=366 * 24 * 3600,
        ),
    ]
    budget_usd: Annotated[
        float | None,
        Option(
            "Maximum cost of all firings together, in US dollars.",
            wire="budget_usd",
            encode=dollars,
            panel=LIMITS,
            min=0,
        ),
    ]
    pause_on: Annotated[
        Sequence[str] | None, Option("Categories of errors that pause the schedule.", wire="pause_on", panel=LIMITS)
    ]
    note: Annotated[str | None, Option("The purpose of the schedule; any text.", wire="note")]


class TurnOptions(TypedDict, total=False):
    """Options that sessions and messages have in common; those of a message override those of its session."""

    provider_id: Annotated[str | None, Option("Provider of the model.", wire="providerId")]
    model_id: Annotated[str | None, Option("Model.", wire="modelId")]
    max_steps: Annotated[int | None, Option("Maximum calls of the model per turn.", wire="maxSteps", min=1)]
    max_output_tokens: Annotated[
        int | None,
        Option("Limit of one call of the model. Default: the model's own.", wire="maxOutputTokens", min=1, max=200_000),
    ]
    controls: Annotated[
        Mapping[str, JsonValue] | None,
        Option(
            "`temperature`, `effort`, `thinking_tokens`, `output_schema`, `stop`, `seed`, as far as the provider has "
            "them.",
            wire="controls",
        ),
    ]
    budgets: Annotated["Budgets | None", Option("Budgets.", wire="budgets", encode=session_budgets)]
    tool_mask: Annotated[Mapping[str, bool] | None, Option("Tools that may be called, by name.", wire="toolMask")]
    compress: Annotated[
        bool | None, Option("False keeps large outputs in the answer.", wire="output.compress", panel=OUTPUT)
    ]
    threshold_bytes: Annotated[
        int | None,
        Option("Outputs of more bytes are stored and summarised.", wire="output.threshold_bytes", panel=OUTPUT, min=0),
    ]
    keep_output_seconds: Annotated[
        float | None,
        Option(
            "How long stored outputs are kept.", wire="output.ttl_seconds", encode=whole_seconds, panel=OUTPUT, min=60
        ),
    ]


class SessionOptions(TurnOptions, total=False):
    """Options of a new session."""

    session_id: Annotated[
        str | None,
        Option(
            "Your own id. An existing session must have the same settings, or the answer is a `Conflict`.",
            wire="sessionId",
        ),
    ]
    title: Annotated[str | None, Option("A title for people.", wire="title")]
    update: Annotated[
        bool | None, Option("Whether these settings replace those of an existing session.", wire="update")
    ]
    tools: Annotated[Sequence[str] | None, Option("Categories, tags (`tag:NAME`), tools and Actors.", wire="tools")]
    instructions: Annotated[str | None, Option("Text for the model, the same in every turn.", wire="instructions")]


class MessageOptions(TurnOptions, total=False):
    """Options of one message."""

    message_id: Annotated[
        str | None,
        Option("The same id in the same session gives the same turn. Default: a new id.", wire="messageId"),
    ]
    retry_of: Annotated[
        str | None,
        Option(
            "Id of an assistant's message: the message before it is answered again.",
            wire="retryOfAssistantMessageId",
        ),
    ]
    dynamic: Annotated[str | None, Option("Text for the model that can change with each turn.", wire="dynamic")]


class TaskFilter(TypedDict, total=False):
    """Tasks that a list has. They are sent in the query, not in a body."""

    status: Annotated[
        str | Sequence[str] | None,
        Option(
            "Only tasks with this status: `queued`, `working`, `input_required`, `completed`, `failed`, `cancelled`.",
            wire="status",
            encode=one_or_more,
            flag="--status",
            metavar="STATUS",
        ),
    ]
    tool: Annotated[str | None, Option("Only calls of this tool.", wire="tool")]
    actor: Annotated[
        str | None,
        Option("Only calls of this Actor, as `user/name`.", wire="actor", flag="--actor", metavar="ACTOR"),
    ]
    run_id: Annotated[
        str | None, Option("Only the task with this Actor run.", wire="run_id", flag="--run", metavar="ID")
    ]
    session_id: Annotated[
        str | None, Option("Only calls of this session.", wire="session_id", flag="--session", metavar="ID")
    ]
    batch_id: Annotated[str | None, Option("Only items of this batch.", wire="batch_id", flag="--batch", metavar="ID")]
    schedule_id: Annotated[
        str | None,
        Option("Only tasks that this schedule started.", wire="schedule_id", flag="--schedule", metavar="ID"),
    ]
    caller: Annotated[
        str | None,
        Option("Another caller, or `*` for all. Needs the scope `admin`.", wire="caller", flag="--caller"),
    ]
    since: Annotated[
        datetime | None,
        Option(
            "Without tasks that ended before this time.", wire="since", encode=moment, flag="--since", metavar="WHEN"
        ),
    ]
    until: Annotated[
        datetime | None,
        Option(
            "Without tasks that ended after this time, or are open and started after it.",
            wire="until",
            encode=moment,
            flag="--until",
            metavar="WHEN",
        ),
    ]


class UsageOptions(TypedDict, total=False):
    """Entries that a usage report sums, and its groups. They are sent in the query, not in a body."""

    first_day: Annotated[date | None, Option("Default: the first day of this month.", wire="from", encode=str)]
    last_day: Annotated[date | None, Option("Default: today.", wire="to", encode=str)]
    by: Annotated[
        Sequence[str] | None,
        Option("`day`, `tool`, `actor`, `model`, `session`, `payer`, `caller`. Default: `day`.", wire="by"),
    ]
    tool: Annotated[str | None, Option("Only calls of this tool.", wire="tool")]
    actor: Annotated[str | None, Option("Only runs of this Actor.", wire="actor")]
    session_id: Annotated[str | None, Option("Only this session.", wire="session_id")]
    caller: Annotated[
        str | None, Option("Another caller, or `*` for all; only with the right to see them.", wire="caller")
    ]


def options_of(kind: type) -> dict[str, Option]:
    """The options that a dictionary of this module declares, by name."""
    return {
        name: next(part for part in get_args(annotation) if isinstance(part, Option))
        for name, annotation in kind.__annotations__.items()
    }


def to_wire(kind: type, options: Mapping[str, Any], *, known: Sequence[str] = ()) -> Body:
    """The body of a request with these options of `kind`; for `UsageOptions` and `TaskFilter`, its query.

    `known` are further parameters of the method, which "did you mean" may name. Raises `TypeError` for an unknown
    option.
    """
    declared = options_of(kind)
    for name in options:
        if name not in declared:
            raise TypeError(_unknown(name, [*declared, *known]))
    body: Body = {}
    for name, option in declared.items():
        value = options.get(name)
        encoded = None if value is None or option.wire is None else option.encode(value)
        if encoded is None:
            continue
        *groups, last = (option.wire or name).split(".")
        place = body
        for group in groups:
            place = cast(Body, place.setdefault(group, {}))
        place[last] = encoded
    return body


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.6) or [other for other in known if other.startswith(name)]
    return f"Unknown option {name!r}: " + (f"did you mean {near[0]}?" if near else f"known are {suggested(known)}.")
