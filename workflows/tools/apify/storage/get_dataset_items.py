"""`get-dataset-items`: a page of a dataset. It ends early where it would be larger than the server's limit."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.activities.json_values import NESTED_NOTE
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import with_sentences
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import (
    answer,
    arguments,
    array,
    flag,
    integer,
    number,
    required_text,
    text,
)
from outlast.workflows.tools.apify.storage.datasets import NO_DATASET
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Read the items of a dataset, a page at a time: what an Actor run has produced. `fields` names the fields that you
need, nested ones with dots; large items are best read in few fields. The answer says how many items there are, and
where to go on.
"""
_DEFAULT_LIMIT = 20


@failing_as(NO_DATASET)
async def get_dataset_items(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The page, and where to go on."""
    fields = _names(given.get("fields"))
    page = await ctx.storages.items(
        DatasetItemsInput(
            caller=ctx.call.caller,
            dataset_id=unquoted(given["datasetId"]),
            offset=int(given.get("offset", 0)),
            limit=int(given.get("limit", _DEFAULT_LIMIT)),
            fields=fields,
            omit=_names(given.get("omit")),
            flatten=_names(given.get("flatten")) or _parents(fields),
            clean=bool(given.get("clean", False)),
            desc=bool(given.get("desc", False)),
            max_bytes=ctx.call.output.inline_limit_bytes,
            shorten_large_row=True,
        )
    )
    return with_sentences(_described(page))


def _described(page: DatasetPage) -> JsonObject:
    count = len(page.items)
    summary = f"{count} of {page.total} items, from offset {page.offset}."
    if page.rows_cut:
        summary += f" {page.rows_cut} more of this page would make the answer too large."
    if page.large_row_note:
        summary += f' {page.large_row_note} Choose fewer fields with fields="...".'
    if page.replaced_text:
        summary += f" {NOTE}"
    if page.nested_rows:
        summary += f" {NESTED_NOTE}"
    if page.rows_cut and page.end == page.offset:
        step = 'Not one item fits: choose fewer with fields="...".'
    elif page.end < page.total:
        step = f"The next items: get-dataset-items with offset={page.end}."
    else:
        step = "These are the last items."
    return {
        "datasetId": page.dataset_id,
        "items": list(page.items),
        "itemCount": count,
        "totalItemCount": page.total,
        "offset": page.offset,
        "limit": page.limit,
        "summary": summary,
        "nextStep": step,
    }


def _names(value: object) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(value).split(",") if name.strip()) if value else ()


def _parents(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The objects to flatten for fields with dots."""
    return tuple(dict.fromkeys(field.partition(".")[0] for field in fields if "." in field.lstrip(".")))


GET_DATASET_ITEMS = reading_tool(
    "get-dataset-items",
    "Get dataset items",
    Category.STORAGE,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "datasetId": required_text("Id of the dataset, or `user~name`."),
            "clean": flag("Whether to pass over empty items and hidden fields (those that begin with #)."),
            "offset": number("Items to skip."),
            "limit": integer(f"Items to read at most; {_DEFAULT_LIMIT} without it.", minimum=1),
            "fields": text("Fields to include, with commas between them; dots for nested ones."),
            "omit": text("Fields to leave out, with commas between them."),
            "desc": flag("Whether the newest come first."),
            "flatten": text("Objects to spread into fields with dots, with commas between them."),
        },
        required=("datasetId",),
    ),
    answer=answer(
        {
            "datasetId": text(),
            "apifyConsoleUrl": text("Its page in Apify Console; only for sessions of the Console."),
            "items": array({"type": "object"}),
            "itemCount": number("Items in this answer."),
            "totalItemCount": number("Items in the dataset."),
            "offset": number(),
            "limit": number(),
            "summary": text(),
            "nextStep": text(),
        },
        required=("datasetId", "items", "itemCount", "totalItemCount", "offset", "limit", "summary", "nextStep"),
    ),
    handler=get_dataset_items,
)
