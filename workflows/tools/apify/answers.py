"""Answers of this mode: content blocks, errors, demands for payment, and the run response.

The run response has the state of a run, its storages and the next call, but no rows. Clients match the error texts."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES
from outlast.workflows.contracts.tool_calls import Content, Offers, TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import as_json as compact
from outlast.workflows.tools.apify.schemas import WAIT_DEFAULT_SECONDS
from outlast.workflows.tools.framework.ids import unquoted

_REFUSAL = re.compile(r"The platform answered \d+ \((?P<type>[\w-]+)\): (?P<message>.*)", re.DOTALL)
"""Message of the classifier for a refusal of the platform (`activities/failures/classify.py`)."""

_THROWN = "Error calling tool "
_NOT_APPROVED = "full-permission-actor-not-approved"

Handler = Callable[[HandlerContext, Any], Awaitable[ToolResult]]
Wording = Callable[[Any, ErrorEnvelope], str | None]
"""Function from the call's arguments and the failure to a specific text, if any."""


def failing_as(wording: Wording, *, search: str | None = None) -> Callable[[Handler], Handler]:
    """Make a handler answer its failures with these texts, as tool errors.

    `search` is a tool for finding a missing object. The text names it if the connection has it.
    """

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        async def handle(ctx: HandlerContext, arguments: Any) -> ToolResult:
            try:
                return await handler(ctx, arguments)
            except ToolError as error:
                text = wording(arguments, error.envelope) or thrown(ctx.call.tool, error.envelope)
                if search is not None and is_missing(error.envelope) and ctx.offers(search):
                    text = f"{text} Look for it with {search}."
                return failed(error.envelope, text)

        return handle

    return decorate


def failed(envelope: ErrorEnvelope, *lines: str) -> ToolResult:
    """Return the tool error with these texts, one block each."""
    return ToolResult(content=tuple(TextContent(text=line) for line in lines), is_error=True, error=envelope)


def not_there(what: str) -> Wording:
    """Return `what`, with the arguments filled in, as the text for a missing object."""

    def wording(arguments: Any, envelope: ErrorEnvelope) -> str | None:
        named = {name: unquoted(value) for name, value in arguments.items()}
        return what.format(**named) if is_missing(envelope) else None

    return wording


def is_missing(envelope: ErrorEnvelope) -> bool:
    """Return whether the object does not exist for this caller."""
    return envelope.category is ErrorCategory.NOT_FOUND


def refusal_type(envelope: ErrorEnvelope) -> str | None:
    """Return the platform's error type (Apify API v2, `error.type`); None for other failures."""
    refusal = _REFUSAL.match(envelope.message)
    return refusal["type"] if refusal is not None else None


def awaits_approval(envelope: ErrorEnvelope) -> bool:
    """Return whether a person has to approve the Actor first: the platform's message has the address."""
    return refusal_type(envelope) == _NOT_APPROVED


def thrown(tool: str, envelope: ErrorEnvelope) -> str:
    """Return the default text of a failure, with the platform's error type for a refusal.

    If a person has to pay or approve first, the text is the platform's message only: without terms of payment, so that
    no client automatically pays again for a call that may have been paid.
    """
    refusal = _REFUSAL.match(envelope.message)
    if refusal is not None:
        if envelope.category is ErrorCategory.PAYMENT or awaits_approval(envelope):
            return refusal["message"]
        return f'{_THROWN}"{tool}": {refusal["message"]} (API error type: {refusal["type"]}).'
    hint = f" {envelope.hint}" if envelope.hint else ""
    return f'{_THROWN}"{tool}": {envelope.message}{hint}'


def is_thrown(text: str) -> bool:
    """Return whether the text of a tool error is that of `thrown`."""
    return text.startswith(_THROWN)


def platform_message(envelope: ErrorEnvelope) -> str:
    """Return the platform's message, without the text that was added to it."""
    refusal = _REFUSAL.match(envelope.message)
    return refusal["message"] if refusal is not None else envelope.message


_SENTENCES = ("summary", "nextStep")
_LESS = "Ask the tool for less."


def with_sentences(structured: JsonObject, *, whole_text: bool = False, more: tuple[Content, ...] = ()) -> ToolResult:
    """Return two texts: the data as JSON, and `summary` and `nextStep`, which `whole_text` also puts into the JSON."""
    shown = structured if whole_text else {name: value for name, value in structured.items() if name not in _SENTENCES}
    lines = "\n".join(str(structured[name]) for name in _SENTENCES if name in structured)
    return ToolResult(content=(TextContent(text=compact(shown)), TextContent(text=lines), *more), structured=structured)


def only_json(structured: JsonObject) -> ToolResult:
    """Return the data as JSON in one text."""
    return ToolResult(content=(TextContent(text=compact(structured)),), structured=structured)


def texts(structured: JsonObject, *blocks: str) -> ToolResult:
    """Return texts, and the structured form beside them."""
    return ToolResult(content=tuple(TextContent(text=block) for block in blocks), structured=structured)


def bounded(content: Sequence[JsonObject], limit_bytes: int) -> tuple[JsonObject, ...]:
    """Return content blocks of an MCP server, unchanged while they fit into `limit_bytes` together.

    A text that does not fit is cut, with a note; any other block is replaced by a description.
    """
    kept: list[JsonObject] = []
    left = limit_bytes
    for block in content:
        size = len(compact(block).encode())
        kept.append(block if size <= left else _cut(block, size, max(left, 0)))
        left -= size
    return tuple(kept)


def first_that_fit(values: Sequence[JsonValue], limit_bytes: int) -> list[JsonValue]:
    """Return the first of `values` whose JSON fits into `limit_bytes` together."""
    kept: list[JsonValue] = []
    for value in values:
        limit_bytes -= len(compact(value).encode()) + len(",")
        if limit_bytes < 0:
            break
        kept.append(value)
    return kept


def smallest_that_fit(fields: JsonObject, limit_bytes: int) -> JsonObject:
    """Return `fields` without the largest ones, so that the JSON of the others fits into `limit_bytes`."""
    sizes = {name: len(compact({name: value}).encode()) for name, value in fields.items()}
    left = sum(sizes.values())
    too_many: set[str] = set()
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if left <= limit_bytes:
            break
        too_many.add(name)
        left -= sizes[name]
    return {name: value for name, value in fields.items() if name not in too_many}


def _cut(block: JsonObject, size: int, left: int) -> JsonObject:
    words = block.get("text")
    if block.get("type") != "text" or not isinstance(words, str) or left == 0:
        return {"type": "text", "text": f"[A block of type {block.get('type')} and {size} bytes is too large. {_LESS}]"}
    # Characters that JSON escapes take more bytes, so the cut is made at the characters' share of the size.
    end = len(words) * left // size
    return {**block, "text": f"{words[:end]}…\n[Cut: {end} of {len(words)} characters. {_LESS}]"}


_UNPAID_NOTE = "The call has to be paid first. Nothing was started."


def demand_for_payment(envelope: ErrorEnvelope, terms: JsonObject) -> ToolResult:
    """Return the terms (PaymentRequired) as JSON and as the structured answer."""
    texts = tuple(TextContent(text=text) for text in (compact(terms), _UNPAID_NOTE))
    return ToolResult(content=texts, structured=terms, is_error=True, error=envelope)


USAGE_META = "com.apify/ActorRun"
DEFAULT = "default"
_STATS = ("runTimeSecs", "computeUnits", "memMaxBytes")
_INPUT_KEY = "INPUT"
_PAGE_OF_ITEMS = 20
_NAMED_FIELDS = 50
"""Most fields of items in a sentence; `fields` has all that fit."""


@dataclass(frozen=True)
class RunStorages:
    """Descriptions of a run's storages, by alias; `default` is always there."""

    datasets: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    stores: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    @classmethod
    def named_in(cls, run: JsonObject) -> "RunStorages":
        """Return the storages of `run` with only their ids."""
        datasets = storage_ids(run, "datasets", "defaultDatasetId")
        stores = storage_ids(run, "keyValueStores", "defaultKeyValueStoreId")
        return cls(
            {alias: {"id": storage} for alias, storage in datasets.items()},
            {alias: {"id": storage} for alias, storage in stores.items()},
        )

    def of_default_alone(self) -> "RunStorages":
        """Return only the default storages."""
        return RunStorages(
            {alias: each for alias, each in self.datasets.items() if alias == DEFAULT},
            {alias: each for alias, each in self.stores.items() if alias == DEFAULT},
        )


def storage_ids(run: JsonObject, kind: str, default: str) -> dict[str, str]:
    """Return the ids of a run's storages of one kind, the default one first (Apify API v2, `storageIds`)."""
    aliased = run.get("storageIds")
    ids = aliased.get(kind) if isinstance(aliased, dict) else None
    found = {alias: each for alias, each in ids.items() if isinstance(each, str)} if isinstance(ids, dict) else {}
    return {DEFAULT: str(run.get(default) or ""), **{alias: each for alias, each in found.items() if alias != DEFAULT}}


def is_final(run: JsonObject) -> bool:
    """Return whether the run has ended."""
    return run.get("status") in FINAL_RUN_STATUSES


def run_answer(
    run: JsonObject, storages: RunStorages, *, actor_name: str | None, summary: str, next_step: str
) -> ToolResult:
    """Return the answer about `run`, the platform's object."""
    stats = run.get("stats")
    report: JsonObject = {
        "runId": run.get("id"),
        "actorId": run.get("actId"),
        "actorName": actor_name,
        **{name: run.get(name) for name in ("status", "statusMessage", "exitCode", "startedAt", "finishedAt")},
        "stats": {name: stats[name] for name in _STATS if stats.get(name) is not None}
        if isinstance(stats, dict)
        else None,
        "storages": {
            "datasets": cast(JsonValue, storages.datasets),
            "keyValueStores": cast(JsonValue, storages.stores),
        },
        "summary": summary,
        "nextStep": next_step,
    }
    return with_sentences({name: value for name, value in report.items() if value is not None}, whole_text=True)


def with_usage(answer: ToolResult, run: JsonObject) -> ToolResult:
    """Add the cost of the run, for programs."""
    usage = {name: run[name] for name in ("usageTotalUsd", "usageUsd") if run.get(name) is not None}
    return answer.model_copy(update={"meta": {**answer.meta, USAGE_META: usage}}) if usage else answer


def summary_of(run: JsonObject, storages: RunStorages) -> str:
    """Describe the state and content of the run. Clients match the beginning."""
    status = str(run.get("status"))
    if status == "READY":
        return f"READY. Run {run.get('id')} waits for its start."
    seconds = _seconds(run)
    head = {"RUNNING": f"RUNNING for {seconds}.", "SUCCEEDED": f"SUCCEEDED in {seconds}."}
    parts = [head.get(status, f"{status} after {seconds}.")]
    if run.get("statusMessage") and status != "SUCCEEDED":
        parts.append(f'It says: "{run["statusMessage"]}".')
    dataset = storages.datasets.get(DEFAULT, {})
    if is_final(run) and isinstance(count := dataset.get("itemCount"), int):
        parts.append(f"Items: {count}.")
        keys = storages.stores.get(DEFAULT, {}).get("keys")
        records = [key for key in keys if key != _INPUT_KEY] if isinstance(keys, list) else []
        if records:
            parts.append(f"Records beside the input: {len(records)}.")
    return " ".join(parts)


def next_step_of(run: JsonObject, storages: RunStorages, offers: Offers) -> str:
    """Return the next call: wait for a run that continues; read the storages of an ended one, or its log."""
    run_id = run.get("id")
    if not is_final(run):
        return f"Follow it with get-actor-run, runId={run_id} and waitSecs={WAIT_DEFAULT_SECONDS}."
    dataset = storages.datasets.get(DEFAULT, {})
    count = dataset.get("itemCount")
    if not isinstance(count, int):
        return f"Read what it has written, if anything, with get-dataset-items, datasetId={dataset.get('id')}."
    if count > 0:
        return _reading_of(dataset, count)
    store = storages.stores.get(DEFAULT, {})
    keys = store.get("keys")
    records = [str(key) for key in keys if key != _INPUT_KEY] if isinstance(keys, list) else []
    if records:
        return (
            f"Read a record with get-key-value-store-record, keyValueStoreId={store['id']}, recordKey={records[0]}. "
            f"The dataset is empty: datasetId={dataset.get('id')}."
        )
    if run.get("status") == "SUCCEEDED":
        return f"It wrote nothing: datasetId={dataset.get('id')} is empty. Its log may say why."
    log = f"Its log says why: get-actor-run-log, runId={run_id}. " if offers("get-actor-run-log") else ""
    return f"{log}It has written no items: datasetId={dataset.get('id')} is empty."


def _reading_of(dataset: JsonObject, count: int) -> str:
    """Return the instruction for reading a dataset that has items."""
    size, fields = dataset.get("inflatedBytes"), dataset.get("fields")
    about = f", about {size} bytes" if isinstance(size, int) else ""
    names = [str(name) for name in fields] if isinstance(fields, list) else []
    more = f" and {len(names) - _NAMED_FIELDS} more" if len(names) > _NAMED_FIELDS else ""
    chosen = f' Choose among the fields with fields="...": {", ".join(names[:_NAMED_FIELDS])}{more}.' if names else ""
    page = f"limit={min(count, _PAGE_OF_ITEMS)}"
    return f"Read the items ({count} in all{about}) with get-dataset-items, datasetId={dataset['id']}, {page}.{chosen}"


def _seconds(run: JsonObject) -> str:
    stats = run.get("stats")
    seconds: Any = stats.get("runTimeSecs") if isinstance(stats, dict) else None
    return f"{seconds:g}s" if isinstance(seconds, int | float) else "0s"
