"""`restore-tool-output`: read a stored output, whole or in part."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import Offset
from outlast.activities.outputs.contracts import (
    DEFAULT_RESTORE_BYTES,
    MAX_RESTORE_BYTES,
    RestoredOutput,
    RestoreOutputInput,
)
from outlast.workflows.contracts.tool_calls import BlobResource, EmbeddedResource, ToolResult, rows_as_lines
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, as_json, describe_size
from outlast.workflows.tools.core.storages import FieldNames
from outlast.workflows.tools.framework.tool import Arguments, Category, reads, tool

_MAX_EXPRESSION_CHARS = 1_000


class RestoreArguments(Arguments):
    """A part of a stored output."""

    locator: str = Field(min_length=1, max_length=200, description="The locator, exactly as an answer gave it.")
    offset: Offset = Field(default=0, description="Where to begin: a row, or a byte of other content.")
    limit: int | None = Field(
        default=None, ge=1, description="Maximum size: number of rows, or bytes of other content."
    )
    fields: FieldNames = Field(
        default_factory=list,
        description='Only these fields of each row, comma-separated, with dot paths: "url,crawl.statusCode".',
    )
    filter: str | None = Field(
        default=None,
        max_length=_MAX_EXPRESSION_CHARS,
        description="Only rows for which this JMESPath is true: \"price > `100` && contains(title, 'pro')\".",
    )
    query: str | None = Field(
        default=None,
        max_length=_MAX_EXPRESSION_CHARS,
        description='JMESPath: its result on the JSON value, or on each row: "{title: title, n: length(tags)}".',
    )
    max_bytes: int = Field(
        default=DEFAULT_RESTORE_BYTES, ge=256, le=MAX_RESTORE_BYTES, alias="maxBytes", description="Size of the answer."
    )


class RestoredPart(Answer):
    """A part of a stored output. `items` of rows, `value` of JSON, `text` of a text; bytes are in further content
    blocks.
    """

    locator: str
    kind: Literal["rows", "json", "text", "binary"]
    content_type: str
    size_bytes: int = Field(description="Size of the whole output.")
    count: int | None = Field(default=None, description="Rows or list elements of the whole output.")
    items: list[JsonValue] | None = None
    value: JsonValue = None
    text: str | None = None
    offset: int
    next_offset: int | None = Field(default=None, description="Offset of the next part; absent if nothing is left.")


async def restore_tool_output(ctx: HandlerContext, arguments: RestoreArguments) -> ToolResult:
    """Read the part, with a hint on the next one."""
    request = RestoreOutputInput(caller=ctx.call.caller, **arguments.model_dump())
    restored = await ctx.outputs.restore(request)
    answer = RestoredPart.model_validate(restored.model_dump())
    more = (_blob(restored),) if restored.blob_base64 is not None else ()
    return answered(answer, _summary(restored), _shown(restored), _next_part(restored), more=more)


def _summary(restored: RestoredOutput) -> str:
    whole = f"{restored.locator} ({describe_size(restored.size_bytes)} of {restored.content_type})"
    if restored.items is None:
        return f"From {whole}, byte {restored.offset} on:" if restored.offset else f"From {whole}:"
    if restored.oversized_row_bytes is not None:
        row = (restored.count or 0) - 1 if restored.next_offset is None else restored.next_offset - 1
        return (
            f"Row {row} of {whole} alone has {describe_size(restored.oversized_row_bytes)}: name the "
            "`fields` you need, or raise maxBytes."
        )
    if not restored.items:
        return f"No row matches from row {restored.offset} on in {whole}."
    return f"{len(restored.items)} of {restored.count} rows of {whole}, from row {restored.offset}:"


def _shown(restored: RestoredOutput) -> str | None:
    if restored.items is not None:
        return rows_as_lines(restored.items)
    if restored.text is not None:
        return restored.text
    return as_json(restored.value) if restored.kind == "json" else None


def _next_part(restored: RestoredOutput) -> str | None:
    if restored.next_offset is None:
        return "Nothing is left behind this." if restored.offset else None
    return f"There is more: call restore-tool-output with the same arguments and offset {restored.next_offset}."


def _blob(restored: RestoredOutput) -> EmbeddedResource:
    return EmbeddedResource(
        resource=BlobResource(
            uri=f"outlast://outputs/{restored.locator}", mimeType=restored.content_type, blob=restored.blob_base64 or ""
        )
    )


RESTORE_TOOL_OUTPUT = (
    tool("restore-tool-output")
    .category(Category.RUNS)
    .describe(
        "Get back an output that was stored because it is large (an answer with `compressed: true` and a `locator`): "
        "rows by offset and limit, only some `fields`, rows that match a `filter`, a range of a text, or the result "
        "of a `query`. Restore when the summary and the first rows do not answer the question, and only the part that "
        "does: a filter or few fields instead of page after page. Do not restore to repeat or to copy an output: its "
        "locator is enough to refer to it, and a person can download the whole."
    )
    .annotate(reads("Restore tool output"))
    .args(RestoreArguments)
    .output(RestoredPart)
    .server(restore_tool_output)
    .gives_back_outputs()
    .build()
)
