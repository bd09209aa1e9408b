"""`get-key-value-store-record`: a record as JSON, text, or a file."""

import json
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from outlast.activities.bounds import Offset
from outlast.activities.outputs.contracts import StoredOutput
from outlast.activities.storages.contracts import Record, RecordInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import Offers, TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import (
    Answer,
    answered,
    compressed_form,
    describe_size,
    describe_stored,
    restore_hint,
)
from outlast.workflows.tools.core.storages import KeyValueStoreArguments, file_block
from outlast.workflows.tools.framework.tool import Category, reads, tool

PART_BYTES = 49_152
"""Size of the part of a text that is shown. A larger record is stored, and its summary shown."""


class RecordArguments(KeyValueStoreArguments):
    """A record, and the start of a part of a long text."""

    record_key: str = Field(
        alias="recordKey", min_length=1, max_length=256, description="Key of the record to retrieve."
    )
    offset: Offset = Field(default=0, description="For a long text: bytes to skip, as the last answer gives it.")

    @field_validator("record_key")
    @classmethod
    def _addresses_a_record(cls, key: str) -> str:
        if key in (".", ".."):
            raise ValueError("A key must not be `.` or `..`.")
        return key


class RecordAnswer(Answer):
    """A record. `value` is the JSON value or the text; a binary record is in the content blocks beside this."""

    key_value_store_id: str
    key: str
    content_type: str
    kind: Literal["json", "text", "binary"]
    size_bytes: int | None = Field(default=None, description="Size of the whole record.")
    value: JsonValue = None
    offset: int | None = Field(default=None, description="For a text: where this part begins, in bytes.")
    next_offset: int | None = Field(default=None, description="Offset of the next part; absent at the end.")
    url: str | None = Field(default=None, description="For a binary record: where to fetch it, with an Apify token.")


async def get_key_value_store_record(ctx: HandlerContext, arguments: RecordArguments) -> ToolResult:
    """Read the record, or the part of it that fits."""
    is_whole_wanted = "offset" not in arguments.model_fields_set and ctx.call.output.compress
    threshold = PART_BYTES if ctx.call.output.threshold_bytes is None else ctx.call.output.threshold_bytes
    record = await ctx.storages.record(
        RecordInput(
            caller=ctx.call.caller,
            storage_id=arguments.key_value_store_id,
            key=arguments.record_key,
            offset=arguments.offset,
            max_bytes=max(1, min(threshold, PART_BYTES)) if is_whole_wanted else PART_BYTES,
        )
    )
    is_cut = record.next_offset is not None or (record.kind == "binary" and record.blob_base64 is None)
    if is_whole_wanted and is_cut:
        return _stored(record, await ctx.outputs.store_record(record.store_id, record.key), ctx.offers)
    if record.kind == "binary":
        return _binary(record)
    answer = _described(record).model_copy(update={"value": record.value if record.kind == "json" else record.text})
    shown = json.dumps(record.value, ensure_ascii=False) if record.kind == "json" else record.text
    more = f"There is more: call get-key-value-store-record with the same key and offset {record.next_offset}."
    return answered(answer, _summary(record), shown, more if record.next_offset is not None else None)


def _stored(record: Record, output: StoredOutput, offers: Offers) -> ToolResult:
    """Return the summary of a large record, with a hint on reading parts of it."""
    short = compressed_form(output).structured()
    text = f"Record {record.key} of {record.store_id}. {describe_stored(output)}\n{restore_hint(output, offers)}"
    link = (file_block(record),) if record.kind == "binary" else ()
    return ToolResult(content=(TextContent(text=text), *link), structured=short, locator=output.locator)


def _described(record: Record) -> RecordAnswer:
    return RecordAnswer(
        key_value_store_id=record.store_id,
        key=record.key,
        content_type=record.content_type,
        kind=record.kind,
        size_bytes=record.size_bytes,
        offset=record.offset if record.kind == "text" else None,
        next_offset=record.next_offset,
    )


def _summary(record: Record) -> str:
    part = f", from byte {record.offset}" if record.offset else ""
    note = f" {NOTE}" if record.replaced_text else ""
    return f"Record {record.key} ({record.content_type}, {describe_size(record.size_bytes)}){part}:{note}"


def _binary(record: Record) -> ToolResult:
    state = "attached."
    if record.blob_base64 is None:
        state = f"too large to show. Fetch it from {record.url} with an Apify token."
    answer = _described(record).model_copy(update={"url": record.url})
    return answered(answer, f"{_summary(record)} {state}", more=(file_block(record),))


GET_KEY_VALUE_STORE_RECORD = (
    tool("get-key-value-store-record")
    .category(Category.STORAGE)
    .describe(
        "Get a value stored in a key-value store under a specific key: JSON, text, or a file, which is attached when "
        "it is small. A large one is stored and summarised; offset reads a long text in parts instead. An Actor's "
        "input is under INPUT, its single result, if any, under OUTPUT."
    )
    .annotate(reads("Get key-value store record"))
    .args(RecordArguments)
    .output(RecordAnswer)
    .output_threshold(2 * PART_BYTES)
    .stores_large_outputs()
    .server(get_key_value_store_record)
    .build()
)
