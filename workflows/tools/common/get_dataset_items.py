"""`get-dataset-items`: rows of a dataset, in pages that a model can afford."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from activities.models import DatasetItemsInput, DatasetPage
from workflows.context import ToolContext
from workflows.models import TextContent, ToolResult
from workflows.tools.core.wording import describe_page, next_page_hint, rows_as_lines
from workflows.tools.tool import Arguments, Category, ToolAnnotations, tool

MAX_ANSWER_BYTES = 65_536


class DatasetItemsArguments(Arguments):
    """Which rows, and which of their fields."""

    dataset_id: str = Field(alias="datasetId", min_length=1, description="Id of the dataset, or `user~name`.")
    offset: int = Field(default=0, ge=0, description="Rows to skip.")
    limit: int = Field(default=20, ge=1, le=1_000, description="Rows to return at most; fewer when they are large.")
    fields: list[str] = Field(default_factory=list, description="Only these fields of each row.")
    omit: list[str] = Field(default_factory=list, description="All but these fields of each row.")
    clean: bool = Field(default=False, description="Leave out empty rows and fields that begin with `#`.")
    desc: bool = Field(default=False, description="Newest rows first.")


class DatasetItems(BaseModel):
    """A page of rows."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    dataset_id: str
    items: list[JsonValue]
    offset: int
    item_count: int = Field(description="Rows on this page.")
    total_item_count: int = Field(description="Rows in the dataset.")
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")


async def get_dataset_items(ctx: ToolContext, arguments: DatasetItemsArguments) -> ToolResult:
    """Read the page and say how to go on."""
    page = await ctx.storage.items(
        DatasetItemsInput(
            caller=ctx.call.caller,
            dataset_id=arguments.dataset_id,
            offset=arguments.offset,
            limit=arguments.limit,
            fields=tuple(arguments.fields),
            omit=tuple(arguments.omit),
            clean=arguments.clean,
            desc=arguments.desc,
            max_bytes=MAX_ANSWER_BYTES,
        )
    )
    parts = (describe_page(page), rows_as_lines(page.items), next_page_hint(page))
    text = "\n".join(part for part in parts if part)
    return ToolResult(content=(TextContent(text=text),), structured=_structured(page))


def _structured(page: DatasetPage) -> dict[str, JsonValue]:
    next_offset = page.offset + len(page.items)
    answer = DatasetItems(
        dataset_id=page.dataset_id,
        items=list(page.items),
        offset=page.offset,
        item_count=len(page.items),
        total_item_count=page.total,
        next_offset=next_offset if next_offset < page.total else None,
    )
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


GET_DATASET_ITEMS = (
    tool("get-dataset-items")
    .category(Category.STORAGE)
    .describe(
        "Get rows of a dataset, with paging and field selection. Every Actor run writes its results to a dataset; "
        "use the dataset id that the run's answer names. Select `fields` when rows are large."
    )
    .annotate(ToolAnnotations(title="Get dataset items", read_only=True, idempotent=True))
    .args(DatasetItemsArguments)
    .output(DatasetItems)
    .server(get_dataset_items)
    .build()
)
