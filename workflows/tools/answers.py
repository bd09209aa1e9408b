"""Building blocks of answers: texts for models, and structured forms, limited in bytes."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import MediaPart
from outlast.activities.json_values import NESTED_NOTE
from outlast.activities.outputs.contracts import StoredOutput
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import Content, Offers, TextContent, ToolResult, rows_as_lines
from outlast.workflows.handler_api.context import HandlerContext

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def describe_duration(duration: timedelta) -> str:
    """Return the duration in its two largest units: `7 days`, `1 hour 30 minutes`."""
    left = max(round(duration.total_seconds()), 1)
    words: list[str] = []
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            words.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(words[:2])


MAX_ANSWER_BYTES: Final = 65_536
"""Limit of the text of one answer. The structured form has the same content and the same limit."""
MAX_CONTENT_BYTES: Final = MAX_ANSWER_BYTES - 8_192
"""Limit of the content itself (rows, text, a page); the rest is for the text around it."""


class Answer(BaseModel):
    """Base of every tool's structured answer: frozen, in camelCase as MCP clients expect."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def structured(self) -> dict[str, JsonValue]:
        """Return the answer as `ToolResult.structured`, without empty fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def answered(answer: Answer, *parts: str | None, more: tuple[Content, ...] = ()) -> ToolResult:
    """Return a result with the structured `answer`, the text of `parts`, one per line, and the blocks of `more`."""
    text = "\n".join(part for part in parts if part)
    return ToolResult(content=(TextContent(text=text), *more), structured=answer.structured())


ROW_READERS: Final = ("get-dataset-items", "get-actor-output")
"""Tools that read rows of a dataset, the most able first."""


def first_offered(offers: Offers, *tools: str) -> str | None:
    """Return the first of `tools` that the caller may call, for hints."""
    return next((name for name in tools if offers(name)), None)


def hint(ctx: HandlerContext, tool: str, text: str) -> str | None:
    """Return `text`, which names `tool`; None if the caller's connection does not offer it."""
    return text if ctx.offers(tool) else None


class Rows(Answer):
    """A page of rows."""

    dataset_id: str
    items: list[JsonValue]
    offset: int
    limit: int
    item_count: int = Field(description="Rows on this page.")
    total_item_count: int = Field(description="Rows in the dataset.")
    next_offset: int | None = Field(default=None, description="Offset of the next page; absent on the last page.")
    large_row_bytes: int | None = Field(
        default=None,
        description="Size of the row at `offset` if it is too large for an answer: it is shortened, or left out.",
    )


def rows_answer(page: DatasetPage, *, tool: str) -> ToolResult:
    """Return the rows and their number, with a hint on the next page from `tool`."""
    answer = Rows(
        dataset_id=page.dataset_id,
        items=list(page.items),
        offset=page.offset,
        limit=page.limit,
        item_count=len(page.items),
        total_item_count=page.total,
        next_offset=page.end if page.end < page.total else None,
        large_row_bytes=page.large_row_bytes,
    )
    return answered(answer, describe_page(page), rows_as_lines(page.items), next_page_hint(page, tool=tool))


def describe_page(page: DatasetPage) -> str:
    """Describe the position of the page in its dataset, and changes to its rows."""
    notes = (page.large_row_note, NOTE if page.replaced_text else None, NESTED_NOTE if page.nested_rows else None)
    return " ".join(part for part in (_described(page), *notes) if part)


def _described(page: DatasetPage) -> str:
    if page.total == 0:
        return f"Dataset {page.dataset_id} is empty."
    if page.end == page.offset:
        return f"Dataset {page.dataset_id} has {page.total} rows; none from offset {page.offset}."
    is_left_out = page.large_row_bytes is not None and not page.items
    hidden = page.end - page.offset - len(page.items) - is_left_out
    left_out = f" Empty rows left out: {hidden}." if hidden else ""
    if page.end == page.offset + 1:
        which = "The only row" if page.total == 1 else f"Row {page.offset} of {page.total}"
        return f"{which} in dataset {page.dataset_id}.{left_out}"
    return f"Rows {page.offset} to {page.end - 1} of {page.total} in dataset {page.dataset_id}.{left_out}"


def next_page_hint(page: DatasetPage, *, tool: str = "get-dataset-items") -> str | None:
    """Return a hint on the next rows from `tool`, or on more of a shortened row; None on the last page."""
    call = f"call {tool} with `fields` naming the few fields you need."
    fewer = f"For more of row {page.offset} {call}" if page.large_row_bytes is not None else None
    if page.end >= page.total:
        return fewer
    if page.end == page.offset and page.rows_cut:
        return f"Row {page.offset} alone is larger than one answer may be. C{call[1:]}"
    cut = f" ({page.rows_cut} rows of this page did not fit)" if page.rows_cut else ""
    more = f"More rows{cut}: call {tool} with datasetId {page.dataset_id} and offset {page.end}."
    return f"{fewer} {more}" if fewer else more


def describe_list(things: str, *, count: int, total: int, offset: int) -> str:
    """Describe the position of a page in its list; `things` is a plural."""
    if total == 0:
        return f"There are no {things}."
    if count == 0:
        return f"There are {total} {things}; none from offset {offset}."
    return f"{things.capitalize()} {offset + 1} to {offset + count} of {total}:"


def next_list_hint(tool: str, *, count: int, total: int, offset: int) -> str | None:
    """Return a hint on the next entries from `tool`; None on the last page."""
    if count == 0 or offset + count >= total:
        return None
    return f"More: call {tool} with offset {offset + count}."


def describe_size(size_bytes: int | None) -> str:
    """Return a size such as `1.5 MB` (decimal units)."""
    if size_bytes is None:
        return "unknown size"
    size, unit = float(size_bytes), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1_000 or unit == "TB":
            break
        size /= 1_000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def describe_run_facts(run: RunState) -> str | None:
    """Describe the run's exit code, build, memory and time limit, as far as they are known."""
    memory, seconds = run.options.get("memoryMbytes"), run.options.get("timeoutSecs")
    facts = [
        f"exit code {run.exit_code}" if run.exit_code is not None else None,
        f"build {run.build_number}" if run.build_number else None,
        f"{memory} MB of memory" if memory else None,
        f"time-out {seconds} s" if seconds else None,
    ]
    known = ", ".join(fact for fact in facts if fact)
    return f"{known[0].upper()}{known[1:]}." if known else None


def describe_run_status(run: RunState) -> str:
    """Describe the state of the run in a sentence."""
    message = f" {run.status_message}" if run.status_message else ""
    times = "once" if run.resurrections == 1 else f"{run.resurrections} times"
    resurrected = f" It was resurrected {times}." if run.resurrections else ""
    enough = f" It was stopped by `until`: {run.until_met.in_words}." if run.until_met else ""
    return f"Run {run.run_id} is {run.status}.{enough}{message}{resurrected}"


RESTORE_TOOL = "restore-tool-output"


class OutputFacts(Answer):
    """Description of a stored output."""

    kind: str = Field(description="rows, json, text or binary.")
    content_type: str
    size_bytes: int
    count: int | None = Field(default=None, description="Number of rows or list elements.")
    expires_at: datetime


class CompressedOutput(OutputFacts):
    """Replacement of a stored output in an answer."""

    compressed: Literal[True] = True
    locator: str = Field(description="Pass it to restore-tool-output, exactly as it is.")
    summary: str = Field(description="What is in the output.")


def output_facts(output: StoredOutput) -> OutputFacts:
    """Describe `output` without its locator and summary."""
    return OutputFacts.model_validate(output.model_dump())


def compressed_form(output: StoredOutput) -> CompressedOutput:
    """Return the short form of `output`."""
    return CompressedOutput.model_validate(output.model_dump())


def describe_stored(output: StoredOutput) -> str:
    """Return a text with the locator, size and summary of the output."""
    return f"The whole output is stored ({describe_size(output.size_bytes)}) as {output.locator}.\n{output.summary}"


def restore_hint(output: StoredOutput, offers: Offers) -> str:
    """Return a hint on restoring more of the output. It names only tools that the model may call."""
    until = f"It is kept until {output.expires_at:%Y-%m-%d %H:%M} UTC."
    if not offers(RESTORE_TOOL):
        return f"No tool that may be called here gives more of it. {until}"
    wanted = {
        "rows": "rows by offset and limit, few fields, or those that match a filter",
        "json": "the part you need, by a query",
        "text": "a range of it",
        "binary": "its bytes",
    }[output.kind]
    return f"When this is not enough, call {RESTORE_TOOL} with that locator for {wanted}. {until}"


Piece = str | MediaPart


def answer_pieces(result: ToolResult) -> list[Piece]:
    """Return the content of an answer in its order; without content, its structured form as JSON."""
    blocks = result.raw_content
    if blocks is None:
        blocks = tuple(block.model_dump(mode="json", exclude_none=True) for block in result.content)
    pieces = [piece for block in blocks for piece in _pieces(block)]
    shown = [piece for piece in pieces if not isinstance(piece, str) or piece.strip()]
    if not pieces and result.structured is not None:
        return [as_json(result.structured)]
    return shown


def answer_facts(result: ToolResult, *, tool: str) -> JsonObject:
    """Return the facts for a model or program besides the content: the error of `tool`, the stored output."""
    facts: JsonObject = {"is_error": True} if result.is_error else {}
    if result.error is not None:
        envelope = result.error.model_copy(update={"tool": result.error.tool or tool})
        facts["error"] = envelope.model_dump(mode="json", exclude_none=True)
    if result.structured is not None and result.structured.get("compressed") is True:
        facts |= {key: result.structured.get(key) for key in ("compressed", "locator")}
    return facts


def as_json(value: JsonValue) -> str:
    """Return `value` as JSON without spaces, because they cost tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pieces(block: JsonObject) -> Iterator[Piece]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(media_type)}:
            yield MediaPart(data=data, media_type=media_type, name=str(kind))
        case {"type": "resource", "resource": {"text": str(text)}}:
            yield text
        case {"type": "resource", "resource": {"blob": str(blob), **resource}}:
            given = cast(dict[str, Any], resource)
            media_type = given.get("mimeType") or "application/octet-stream"
            yield MediaPart(data=blob, media_type=str(media_type), name=str(given.get("uri", "resource")))
        case {"type": "resource_link", "uri": str(uri)}:
            named = " ".join(str(block[key]) for key in ("name", "mimeType") if block.get(key))
            yield f"[{named}: {uri}]"
        case _:
            yield as_json(block)
