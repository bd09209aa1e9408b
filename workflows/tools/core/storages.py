"""Arguments and views of tools for datasets and key-value stores."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from outlast.activities.storages.contracts import DatasetInfo, KeyValueStoreInfo, Record, StorageInfo, StorageListInput
from outlast.workflows.contracts.tool_calls import (
    AudioContent,
    BlobResource,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
)
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, describe_size
from outlast.workflows.tools.core.lists import NewestFirstArguments
from outlast.workflows.tools.framework.tool import Arguments

_ID_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*([~/][A-Za-z0-9_][A-Za-z0-9_.-]*)?$"

StorageId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=_ID_PATTERN)]
"""Id of a storage, or `user~name`."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


FieldNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=1_000)]],
    Field(max_length=200),
    BeforeValidator(_split),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 200}]}),
]
"""Names of fields: a list, or one text with commas."""


def parents_of(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the objects to flatten for fields with dots: `["metadata.url", "title"]` -> `("metadata",)`."""
    return tuple(dict.fromkeys(field.partition(".")[0] for field in fields if "." in field.lstrip(".")))


class DatasetArguments(Arguments):
    """Names a dataset."""

    dataset_id: StorageId = Field(alias="datasetId", description="Dataset ID or username~dataset-name.")


class KeyValueStoreArguments(Arguments):
    """Names a key-value store."""

    key_value_store_id: StorageId = Field(
        alias="keyValueStoreId", description="Key-value store ID or username~store-name."
    )


class StorageListArguments(NewestFirstArguments):
    """Page of a list of storages."""

    unnamed: bool = Field(
        default=False, description="If true, storages without a name are listed too. Those that runs make have none."
    )


class StorageView(Answer):
    """A storage without its content."""

    id: str
    name: str | None = Field(default=None, description="Absent for the storages that runs make.")
    created_at: datetime
    modified_at: datetime
    accessed_at: datetime | None = None
    actor_id: str | None = None
    run_id: str | None = Field(default=None, description="Run that made the storage.")
    size_bytes: int | None = None
    console_url: str | None = None


class DatasetView(StorageView):
    """A dataset without its items."""

    item_count: int = Field(description="May lag a few seconds behind the items.")
    clean_item_count: int | None = None
    fields: list[str] = Field(description="Names of top-level fields, as far as the platform knows them.")


def dataset_view(dataset: DatasetInfo) -> DatasetView:
    """Return the structured form of a dataset."""
    return DatasetView.model_validate(dataset.model_dump())


def store_view(store: KeyValueStoreInfo) -> StorageView:
    """Return the structured form of a key-value store."""
    return StorageView.model_validate(store.model_dump())


def list_input(ctx: HandlerContext, arguments: StorageListArguments) -> StorageListInput:
    """Return the input of the activity that lists storages."""
    return StorageListInput(caller=ctx.call.caller, **arguments.model_dump())


def storage_line(storage: StorageInfo) -> str:
    """Return one line about a storage in a list."""
    label = f"{storage.id} ({storage.name})" if storage.name else storage.id
    items = f"{storage.item_count} items, " if isinstance(storage, DatasetInfo) else ""
    size = f"{describe_size(storage.size_bytes)}, " if storage.size_bytes is not None else ""
    made_by = f", from run {storage.run_id}" if storage.run_id else ""
    return f"- {label}: {items}{size}modified {storage.modified_at:%Y-%m-%d %H:%M:%S}{made_by}"


def unnamed_hint(arguments: StorageListArguments, *, total: int) -> str | None:
    """Return a note on storages without a name, for an empty list; None if it does not apply."""
    if total or arguments.unnamed:
        return None
    return "Only storages with a name were looked for: set unnamed to true for those that runs made."


def mime_of(record: Record) -> str:
    """Return the media type of a record, without parameters."""
    return record.content_type.partition(";")[0].strip().lower() or "application/octet-stream"


def file_block(record: Record) -> Content:
    """Return a file as a content block; a link to a file whose bytes were not read."""
    mime = mime_of(record)
    if record.blob_base64 is None:
        return ResourceLink(uri=record.url, name=record.key, mimeType=mime, size=record.size_bytes)
    match mime.partition("/")[0]:
        case "image":
            return ImageContent(data=record.blob_base64, mimeType=mime)
        case "audio":
            return AudioContent(data=record.blob_base64, mimeType=mime)
        case _:
            return EmbeddedResource(resource=BlobResource(uri=record.url, mimeType=mime, blob=record.blob_base64))
