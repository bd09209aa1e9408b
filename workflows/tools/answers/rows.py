"""A page of rows as an answer, for `get-dataset-items` and `get-actor-output`."""

from pydantic import Field, JsonValue

from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.row_text import rows_as_lines
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.answers.answer import Answer, answered
from outlast.workflows.tools.answers.wording import describe_page, next_page_hint


class Rows(Answer):
    """A page of rows."""

    dataset_id: str
    items: list[JsonValue]
    offset: int
    limit: int
    item_count: int = Field(description="Rows on this page.")
    total_item_count: int = Field(description="Rows in the dataset.")
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")
    large_row_bytes: int | None = Field(
        default=None,
        description="Size of the row at `offset` if it is too large for an answer: it is shortened, or left out.",
    )


def rows_answer(page: DatasetPage, *, tool: str) -> ToolResult:
    """The rows, their number, and how to get the next page with `tool`."""
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
