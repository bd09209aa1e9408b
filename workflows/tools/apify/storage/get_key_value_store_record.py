"""`get-key-value-store-record`: what is stored under a key."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.activities.storages.contracts import Record, RecordInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import (
    AudioContent,
    BlobResource,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    ToolResult,
)
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import with_sentences
from outlast.workflows.tools.apify.answers.failures import failing_as, is_missing
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, anything, arguments, required_text, text
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Read a record of a key-value store: JSON or text as it is, pictures and sound as such, other files as a blob, and what
is large as a link. The key OUTPUT often has the result of a run, INPUT its input.
"""


def _wording(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    if not is_missing(envelope):
        return None
    store, key = unquoted(given["keyValueStoreId"]), unquoted(given["recordKey"])
    if "record" in envelope.message:
        return f"Record '{key}' not found in key-value store '{store}'."
    return f"Key-value store '{store}' not found."


@failing_as(_wording)
async def get_key_value_store_record(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The record, whole or as a link."""
    store, key = unquoted(given["keyValueStoreId"]), unquoted(given["recordKey"])
    limit = ctx.call.output.inline_limit_bytes
    record = await ctx.storages.record(RecordInput(caller=ctx.call.caller, storage_id=store, key=key, max_bytes=limit))
    value, blocks = _shown(record)
    structured: JsonObject = {
        "keyValueStoreId": store,
        "key": key,
        "value": value,
        "contentType": record.content_type,
        "summary": f"{key}: {record.content_type}, {_size(record)} bytes.{f' {NOTE}' if record.replaced_text else ''}",
    }
    if record.kind == "binary":
        return ToolResult(content=blocks, structured=structured)
    return with_sentences(structured, more=blocks)


def _shown(record: Record) -> tuple[JsonValue, tuple[Content, ...]]:
    """What stands for the record in the structured answer, and the blocks beside it."""
    if record.kind == "json":
        return record.value, ()
    if record.kind == "text" and record.next_offset is None:
        return record.text, ()
    mime = record.content_type.partition(";")[0].strip().lower() or "application/octet-stream"
    if record.blob_base64 is None:
        link = ResourceLink(uri=record.url, name=record.key, mimeType=mime, size=record.size_bytes)
        return (f"{record.text}…" if record.text else f"<binary {mime}, {_size(record)} bytes>"), (link,)
    return f"<binary {mime}, {_size(record)} bytes>", (_blob(mime, record.blob_base64, record.url),)


def _blob(mime: str, data: str, url: str) -> Content:
    if mime.startswith("image/"):
        return ImageContent(data=data, mimeType=mime)
    if mime.startswith("audio/"):
        return AudioContent(data=data, mimeType=mime)
    return EmbeddedResource(resource=BlobResource(uri=url, mimeType=mime, blob=data))


def _size(record: Record) -> int | str:
    return record.size_bytes if record.size_bytes is not None else "unknown"


GET_KEY_VALUE_STORE_RECORD = reading_tool(
    "get-key-value-store-record",
    "Get key-value store record",
    Category.STORAGE,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "keyValueStoreId": required_text("Id of the key-value store, or `user~name`."),
            "recordKey": required_text("Key of the record."),
        },
        required=("keyValueStoreId", "recordKey"),
    ),
    answer=answer(
        {
            "keyValueStoreId": text(),
            "key": text(),
            "value": anything("The JSON value or the text; for a file, what it is."),
            "contentType": text(),
            "summary": text(),
        },
        required=("keyValueStoreId", "key", "value", "summary"),
    ),
    handler=get_key_value_store_record,
)
