"""Arguments that several storage tools share."""

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from outlast.activities.bounds import Offset
from outlast.workflows.tools.framework.tool import Arguments

_ID_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*([~/][A-Za-z0-9_][A-Za-z0-9_.-]*)?$"

StorageId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=_ID_PATTERN)]
"""Id of a storage, or `user~name`."""


def _split(value: object) -> object:
    """`"url, title"` as the list that it means."""
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


class DatasetArguments(Arguments):
    """Names a dataset."""

    dataset_id: StorageId = Field(alias="datasetId", description="Dataset ID or username~dataset-name.")


class KeyValueStoreArguments(Arguments):
    """Names a key-value store."""

    key_value_store_id: StorageId = Field(
        alias="keyValueStoreId", description="Key-value store ID or username~store-name."
    )


class PageArguments(Arguments):
    """Which page of a list."""

    offset: Offset = Field(default=0, description="Number of entries to skip at the start.")
    limit: int = Field(default=10, ge=1, le=100, description="Maximum number of entries to return.")


class StorageListArguments(PageArguments):
    """Which page of a list of storages."""

    desc: bool = Field(default=True, description="If true, newest first; if false, oldest first.")
    unnamed: bool = Field(
        default=False,
        description="If true, storages without a name are listed too. Those that runs make have none.",
    )
