"""Contracts of the activities that read lists of runs and storages, datasets and key-value stores."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract

RunStatus = Literal["READY", "RUNNING", "SUCCEEDED", "FAILED", "TIMING-OUT", "TIMED-OUT", "ABORTING", "ABORTED"]
"""States of a run (Apify API v2, run object, `status`)."""
REPLACED_TEXT = "Whether characters that are not valid Unicode were replaced by U+FFFD, see `activities.unicode_text`."


class ListInput(Contract):
    """Input of an activity that lists what a caller has: one page."""

    caller: Caller
    offset: int = 0
    limit: int = 10
    desc: bool = False


class RunListInput(ListInput):
    """Input of `list_runs`: one page of the caller's runs, or of the runs of one Actor."""

    actor: str | None = None
    status: RunStatus | None = None


class RunItem(Contract):
    """One run in a list of runs."""

    run_id: str
    actor_id: str
    status: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    build_number: str | None = None
    usage_total_usd: float | None = None
    dataset_id: str
    key_value_store_id: str


class RunPage(Contract):
    """One page of a list of runs. `total` counts the runs on all pages."""

    runs: tuple[RunItem, ...]
    total: int
    offset: int


class StorageListInput(ListInput):
    """Input of `list_datasets` and `list_key_value_stores`: one page of the caller's storages. Storages that runs
    created have no name; `unnamed` includes them.
    """

    unnamed: bool = False


class StorageRef(Contract):
    """A dataset or a key-value store that the caller can see: its id, `user~name` or `user/name`."""

    caller: Caller
    storage_id: str


class StorageInfo(Contract):
    """The fields that datasets and key-value stores have in common."""

    id: str
    name: str | None = None
    created_at: datetime
    modified_at: datetime
    accessed_at: datetime | None = None
    actor_id: str | None = None
    run_id: str | None = None
    size_bytes: int | None = None
    console_url: str | None = None


class DatasetInfo(StorageInfo):
    """A dataset. Its item count can lag a few seconds behind its items."""

    item_count: int
    clean_item_count: int | None = None
    fields: tuple[str, ...] = ()


class KeyValueStoreInfo(StorageInfo):
    """A key-value store."""


class DatasetListPage(Contract):
    """One page of the caller's datasets."""

    datasets: tuple[DatasetInfo, ...]
    total: int
    offset: int


class KeyValueStoreListPage(Contract):
    """One page of the caller's key-value stores."""

    stores: tuple[KeyValueStoreInfo, ...]
    total: int
    offset: int


class DatasetSchemaInput(StorageRef):
    """Input of `infer_dataset_schema`: the schema of a dataset's first rows."""

    limit: int = 5
    clean: bool = True
    max_bytes: int = Field(default=1_048_576, description="Rows are read up to this size, whatever the `limit`.")
    max_schema_bytes: int = Field(default=49_152, description="A larger schema loses its deepest levels.")


class DatasetSchema(Contract):
    """A schema that is valid for every row that was read."""

    dataset_id: str
    item_schema: dict[str, JsonValue]
    rows_read: int
    total: int
    simplified: bool = Field(default=False, description="Whether the deepest levels were left out to save space.")
    replaced_text: bool = Field(default=False, description=REPLACED_TEXT)


class KeysInput(StorageRef):
    """Input of `list_keys`: one page of a store's keys, in the store's own order."""

    exclusive_start_key: str | None = None
    prefix: str | None = None
    limit: int = 100


class RecordKey(Contract):
    """A key and the size of its record."""

    key: str
    size_bytes: int


class KeyPage(Contract):
    """One page of keys. `next_start_key` is where the next page starts; None on the last page."""

    keys: tuple[RecordKey, ...]
    next_start_key: str | None = None


class RecordInput(StorageRef):
    """Input of `fetch_record`: one record, or a part of a record that is text."""

    key: str
    offset: int = Field(default=0, description="Bytes to skip of a record that is text.")
    max_bytes: int = Field(default=49_152, description="Most bytes of a text to read; a larger blob is left out.")


class Record(Contract):
    """A record, or a part of it: `value` when it is whole and JSON, `text`, `blob_base64`, or only its URL."""

    store_id: str
    key: str
    content_type: str
    kind: Literal["json", "text", "binary"]
    size_bytes: int | None = Field(default=None, description="Size of the whole; None when the platform omits it.")
    value: JsonValue = None
    text: str | None = None
    blob_base64: str | None = None
    offset: int = 0
    next_offset: int | None = Field(default=None, description="Where the text continues; None when it is complete.")
    url: str = Field(description="Where the caller can download the record with their own token.")
    replaced_text: bool = Field(default=False, description=REPLACED_TEXT)


class DatasetItemsInput(Contract):
    """Input of `fetch_dataset_items`: one page of a dataset (Apify API v2, `GET /v2/datasets/:id/items`)."""

    caller: Caller
    dataset_id: str
    offset: int = 0
    limit: int = 100
    fields: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    flatten: tuple[str, ...] = Field(default=(), description="Object fields to spread into `field.inner` fields.")
    paths: tuple[str, ...] = Field(default=(), description="Reduce each row to these dot paths, as one flat object.")
    clean: bool = False
    desc: bool = False
    max_bytes: int = Field(default=65_536, description="The page ends before the row that would exceed this size.")
    max_text_chars: int | None = Field(default=None, description="Shorten longer texts and lists, for a preview.")
    expect_items: bool = Field(default=False, description="Read an empty dataset again for a few seconds: counts lag.")
    whole: bool = Field(default=False, description="Return no rows when not all rows of the dataset fit.")
    shorten_large_row: bool = Field(
        default=False,
        description="Shorten a first row that alone exceeds `max_bytes`, or skip it, so that a reader gets past it.",
    )
    describe_run_store: str | None = Field(
        default=None,
        description="A run's key-value store: the page then has its keys and the schema of the rows.",
    )
    describe_run_actor: str | None = Field(
        default=None, description="Id of a run's Actor, besides `describe_run_store`: the page then has its name."
    )


class DatasetPage(Contract):
    """One page of a dataset. `rows_cut` rows of the requested page did not fit into `max_bytes`."""

    dataset_id: str
    items: tuple[JsonValue, ...]
    offset: int
    limit: int
    total: int
    fields: tuple[str, ...] = ()
    rows_cut: int = 0
    rows_read: int | None = Field(default=None, description="Rows that the page spans, including those `clean` hides.")
    size_bytes: int = 0
    large_row_bytes: int | None = Field(
        default=None, description="Size of the first row if it was too large for any page: it is shortened, or skipped."
    )
    items_schema: dict[str, JsonValue] | None = Field(
        default=None, description="The schema of the rows before they were shortened, simplified to 700 bytes."
    )
    keys: tuple[str, ...] | None = Field(
        default=None, description="The first 20 keys of the run's store; None when they cannot be listed."
    )
    actor_name: str | None = Field(default=None, description="The run's Actor as `user/name`, if requested.")
    replaced_text: bool = Field(default=False, description=REPLACED_TEXT)
    nested_rows: bool = Field(default=False, description="Whether a row is nested too deeply, and given as text.")

    @property
    def large_row_note(self) -> str | None:
        """The treatment of a first row that is too large for any page; None if there is none."""
        if self.large_row_bytes is None:
            return None
        done = "its long texts and lists are shortened" if self.items else "it is left out"
        return f"Row {self.offset} alone has {self.large_row_bytes} bytes, more than an answer may have: {done}."

    @property
    def end(self) -> int:
        """Offset of the first row after the page."""
        return self.offset + (len(self.items) if self.rows_read is None else self.rows_read)
