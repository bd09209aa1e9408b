"""Rows of a dataset, through the tool that reads them."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from outlast.cli.running import Context

_TOOL = "get-dataset-items"
_MAX_CALLS = 10
_WAIT_SECONDS = 60


class RowPage(BaseModel):
    """The answer of `get-dataset-items`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    items: list[dict[str, Any]] = []
    total_item_count: int = 0
    next_offset: int | None = None


async def fetch_rows(
    context: Context, dataset_id: str, *, fields: tuple[str, ...], limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The first rows of a dataset, `limit` at most, and how many it has."""
    rows: list[dict[str, Any]] = []
    page = RowPage(next_offset=0)
    for _ in range(_MAX_CALLS):
        if page.next_offset is None or len(rows) >= limit:
            break
        wanted = limit - len(rows)
        arguments = {"datasetId": dataset_id, "offset": page.next_offset, "limit": wanted, "fields": list(fields)}
        page = await _call(context, arguments)
        rows += page.items
        if not page.items:
            break
    return rows, page.total_item_count


async def _call(context: Context, arguments: dict[str, Any]) -> RowPage:
    task = await context.client.start(_TOOL, arguments)
    answer = await context.client.result(task.id, wait_seconds=_WAIT_SECONDS)
    structured = answer.result.structured if answer.result and not answer.result.is_error else None
    return RowPage.model_validate(structured or {})
