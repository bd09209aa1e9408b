"""The bodies of requests, from what the caller of the client gives."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from pydantic import JsonValue

if TYPE_CHECKING:
    from outlast.client.contracts.sessions import Budgets


class CallOptions(TypedDict, total=False):
    """How one call is carried out. What is left out, or None, is as the server has it."""

    mode: str | None
    """`default` waits for runs to end, `openai` answers when they have started."""
    session_id: str | None
    """The conversation that the call belongs to."""
    message_id: str | None
    tool_call_id: str | None
    deadline_seconds: float | None
    """After this the task fails, and its run is aborted."""
    max_usd: float | None
    """US dollars that the run may cost."""
    max_items: int | None
    """Rows that the run may produce."""
    max_run_seconds: float | None
    """Time that the run may take."""
    compress: bool | None
    """False keeps a large output in the answer, up to the server's limit."""
    keep_output_seconds: float | None
    """How long a stored output is kept."""
    reuse: str | None
    """An equal call of yours that runs, or was answered not longer ago than this (`90s`, `6h`, `7d`), answers it."""
    refresh: bool | None
    """Starts the call in any case; later equal calls may be answered by it."""
    resurrect: int | None
    """How often a run of the call that is cut short may go on, instead of being paid again; 0 for never."""
    until: Mapping[str, JsonValue] | None
    """When the run has produced enough and is stopped: `rows`, `expression` with `matches`, `usd`; any of them."""
    webhooks: Sequence[Mapping[str, JsonValue]] | None
    """Addresses that are told of this task, each with its `url`, its `secret` (`whsec_...`) and perhaps `events`."""
    tool_mask: Mapping[str, bool] | None
    """Which tools are active, by name."""
    idempotency_key: str | None
    """The same key with the same call gives the same task. Without it every call is a new task."""


class ResurrectOptions(TypedDict, total=False):
    """How the run of an ended task goes on. What is left out, or None, stays as it was."""

    max_usd: float | None
    """US dollars that the run may cost in all its lives."""
    max_items: int | None
    max_run_seconds: float | None
    """Time of the new life."""
    deadline_seconds: float | None
    build: str | None
    """Another build of the Actor."""
    memory_mbytes: int | None
    force: bool | None
    """Also when the run failed by itself, or has produced nothing to go on from."""


class BatchOptions(TypedDict, total=False):
    """How a batch is carried out. What is left out, or None, is as the server has it. Money is in US dollars."""

    mode: str | None
    name: str | None
    """For people; any text."""
    concurrency: int | None
    """Items under way at a time, at most."""
    order: str | None
    """`given`: rows come in the order of the items; `any`: as the items end."""
    retries: Mapping[str, int] | None
    """By category of error: how often an item that fails with it is tried again."""
    budget_usd: float | None
    """Budget of all items together."""
    stop: Mapping[str, JsonValue] | None
    """When it stops: `failures`, `failure_share`, `categories`, `seconds`, `completed`, `rows`, `under_way`."""
    mapping: Mapping[str, str] | None
    """The argument (dot path) by the field of a row (dot path) that it takes its value from."""
    key: str | None
    """The field of a row that is its item's key."""
    delimiter: str | None
    """Delimiter of the CSV."""
    deadline_seconds: float | None
    """After this an item fails, and its run is aborted."""
    max_usd: float | None
    """Limit on the cost of one item's run."""
    max_items: int | None
    """Rows that one item's run may produce."""
    max_run_seconds: float | None
    until: Mapping[str, JsonValue] | None
    """When the run of an item has produced enough and is stopped, as for a single call."""
    keep_output_seconds: float | None
    """How long stored outputs of items, and the results, are kept."""
    resurrect: int | None
    """How often an item's run that is cut short may go on, instead of being paid again."""
    reuse: str | None
    """An equal call that runs, or was answered not longer ago than this (`90s`, `6h`, `7d`), answers an item."""
    refresh: bool | None
    """Starts the items in any case; later equal calls may be answered by them."""
    webhooks: Sequence[Mapping[str, JsonValue]] | None
    """Addresses that are told of the batch, each with its `url`, its `secret` (`whsec_...`) and perhaps `events`."""
    tool_mask: Mapping[str, bool] | None
    idempotency_key: str | None
    """The same key with the same batch gives the same batch. Without it every batch is a new one."""


class MessageOptions(TypedDict, total=False):
    """How one message is answered. What is left out, or None, is as the session has it."""

    message_id: str | None
    """The same id in the same session meets the same turn. Without it every message is a new one."""
    retry_of: str | None
    """Id of an assistant's message: the message before it is answered again."""
    provider_id: str | None
    model_id: str | None
    max_steps: int | None
    max_output_tokens: int | None
    """Limit of one call of the model. Default: the session's, else the model's own."""
    controls: Mapping[str, JsonValue] | None
    """`temperature`, `effort`, `thinking_tokens`, `output_schema`, `stop`, `seed`: each over the session's."""
    budgets: "Budgets | None"
    dynamic: str | None
    """Text for the model that may change from turn to turn."""
    tool_mask: Mapping[str, bool] | None
    compress: bool | None


class SessionOptions(TypedDict, total=False):
    """How a session is begun. What is left out, or None, is as the server has it."""

    session_id: str | None
    """An id of your own. A session that exists already has to have the same settings, or is a `Conflict`."""
    title: str | None
    update: bool | None
    """Whether a session that exists takes these settings."""
    provider_id: str | None
    model_id: str | None
    tools: Sequence[str] | None
    """Categories, tools and Actors."""
    instructions: str | None
    max_steps: int | None
    max_output_tokens: int | None
    """Limit of one call of the model. Default: the model's own."""
    controls: Mapping[str, JsonValue] | None
    """`temperature`, `effort`, `thinking_tokens`, `output_schema`, `stop`, `seed`: what the provider has of them."""
    budgets: "Budgets | None"
    tool_mask: Mapping[str, bool] | None
    compress: bool | None


Body = dict[str, JsonValue]


def tool_name(name: str) -> str:
    """The tool of an Actor that is named `user/name` or `user~name`; names of tools stay as they are."""
    if "/" not in name and "~" not in name:
        return name
    from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor  # noqa: PLC0415 (rarely)

    return actor_tool_name(normalised_actor(name))


def call_body(tool: str, arguments: Mapping[str, JsonValue] | None, options: CallOptions) -> Body:
    """The body of `POST /v1/tasks`."""
    return given(
        tool=tool_name(tool),
        arguments=dict(arguments or {}),
        mode=options.get("mode"),
        session_id=options.get("session_id"),
        message_id=options.get("message_id"),
        tool_call_id=options.get("tool_call_id"),
        toolMask=_mask(options.get("tool_mask")),
        options=given(
            deadline_seconds=_whole_seconds(options.get("deadline_seconds")),
            budget=_budget(options),
            output=_output(options.get("compress"), options.get("keep_output_seconds")),
            reuse=_reuse(options.get("reuse"), refresh=options.get("refresh")),
            resurrect=_resurrection(options.get("resurrect")),
            until=_until(options),
            webhooks=_webhooks(options),
        ),
    )


def _resurrection(times: int | None) -> Body | None:
    return None if times is None else {"max_times": times}


def resurrect_body(options: ResurrectOptions) -> Body:
    """The body of `POST /v1/tasks/{id}/resurrect`."""
    limits = CallOptions(
        max_usd=options.get("max_usd"),
        max_items=options.get("max_items"),
        max_run_seconds=options.get("max_run_seconds"),
    )
    return given(
        budget=_budget(limits),
        deadline_seconds=_whole_seconds(options.get("deadline_seconds")),
        build=options.get("build"),
        memory_mbytes=options.get("memory_mbytes"),
        force=options.get("force") or None,
    )


def batch_settings(tool: str, arguments: Mapping[str, JsonValue] | None, options: BatchOptions) -> Body:
    """Body of `POST /v1/batches`, without the items."""
    retries, stop, mapping = options.get("retries"), options.get("stop"), options.get("mapping")
    budget = options.get("budget_usd")
    return given(
        tool=tool_name(tool),
        arguments=dict(arguments or {}),
        mode=options.get("mode"),
        name=options.get("name"),
        concurrency=options.get("concurrency"),
        order=options.get("order"),
        retries=None if retries is None else dict(retries),
        budget_usd=None if budget is None else str(budget),
        stop=None if stop is None else dict(stop),
        mapping=None if mapping is None else dict(mapping),
        key=options.get("key"),
        delimiter=options.get("delimiter"),
        webhooks=_webhooks(options),
        toolMask=_mask(options.get("tool_mask")),
        options=given(
            deadline_seconds=_whole_seconds(options.get("deadline_seconds")),
            budget=_budget(options),
            output=_output(None, options.get("keep_output_seconds")),
            reuse=_reuse(options.get("reuse"), refresh=options.get("refresh")),
            resurrect=_resurrection(options.get("resurrect")),
            until=_until(options),
        ),
    )


def session_body(session_id: str, options: SessionOptions) -> Body:
    """The body of `POST /v1/sessions`."""
    tools = options.get("tools")
    return given(
        sessionId=session_id,
        title=options.get("title"),
        update=options.get("update"),
        providerId=options.get("provider_id"),
        modelId=options.get("model_id"),
        tools=None if tools is None else list(tools),
        instructions=options.get("instructions"),
        maxSteps=options.get("max_steps"),
        maxOutputTokens=options.get("max_output_tokens"),
        controls=_controls(options.get("controls")),
        budgets=_budgets(options.get("budgets")),
        toolMask=_mask(options.get("tool_mask")),
        output=_output(options.get("compress"), None),
    )


def message_body(message: str | Sequence[Body] | None, message_id: str, options: MessageOptions) -> Body:
    """The body of `POST /v1/sessions/{id}/messages`."""
    return given(
        message=message if message is None or isinstance(message, str) else [dict(part) for part in message],
        messageId=message_id,
        stream=False,
        retryOfAssistantMessageId=options.get("retry_of"),
        providerId=options.get("provider_id"),
        modelId=options.get("model_id"),
        maxSteps=options.get("max_steps"),
        maxOutputTokens=options.get("max_output_tokens"),
        controls=_controls(options.get("controls")),
        budgets=_budgets(options.get("budgets")),
        dynamic=options.get("dynamic"),
        toolMask=_mask(options.get("tool_mask")),
        output=_output(options.get("compress"), None),
    )


def given(**values: JsonValue) -> Body:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _budget(options: CallOptions | BatchOptions) -> JsonValue:
    max_usd = options.get("max_usd")
    return (
        given(
            max_total_charge_usd=None if max_usd is None else str(max_usd),
            max_items=options.get("max_items"),
            max_run_seconds=_whole_seconds(options.get("max_run_seconds")),
        )
        or None
    )


def _until(options: CallOptions | BatchOptions) -> JsonValue:
    until = options.get("until")
    return None if until is None else dict(until)


def _webhooks(options: CallOptions | BatchOptions) -> JsonValue:
    return [dict(one) for one in options.get("webhooks") or ()] or None


def _mask(mask: Mapping[str, bool] | None) -> JsonValue:
    return None if mask is None else dict(mask)


def _controls(controls: Mapping[str, JsonValue] | None) -> JsonValue:
    return None if controls is None else dict(controls)


def _budgets(budgets: "Budgets | None") -> JsonValue:
    return None if budgets is None else budgets.document()


def _reuse(max_age: str | None, *, refresh: bool | None) -> Body | None:
    return given(max_age=max_age, refresh=refresh or None) or None


def _output(compress: bool | None, keep_seconds: float | None) -> JsonValue:
    return given(compress=compress, ttl_seconds=_whole_seconds(keep_seconds)) or None


def _whole_seconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds))
