"""Contracts of the activities that store outputs and read parts of them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import OPEN, Caller, Contract
from outlast.activities.storages.contracts import DatasetPage

OutputKind = Literal["rows", "json", "text", "binary"]
"""The kind of a stored output: JSON rows (one per line), one JSON value, text in UTF-8, or bytes."""

DEFAULT_THRESHOLD_BYTES = 4_096
DEFAULT_TTL_SECONDS = 24 * 3600
DEFAULT_INLINE_LIMIT_BYTES = 256 * 1024

MAX_SUMMARY_CHARS = 1_500
"""A history contains a summary three times, a model's context contains it once."""

DEFAULT_RESTORE_BYTES = 16_384
MAX_RESTORE_BYTES = 49_152


class OutputPolicy(Contract):
    """Limits for storing the outputs of a call, and their time to live. Sizes are bytes of UTF-8."""

    compress: bool = Field(default=True, description="False keeps outputs in the answer, up to `inline_limit_bytes`.")
    threshold_bytes: int | None = Field(
        default=None, ge=0, description="Larger outputs are stored; None leaves it to the tool, then to the default."
    )
    default_threshold_bytes: int = Field(default=DEFAULT_THRESHOLD_BYTES, ge=0, description="For tools without one.")
    ttl_seconds: int = Field(default=DEFAULT_TTL_SECONDS, gt=0, description="Retention of a stored output.")
    inline_limit_bytes: int = Field(
        default=DEFAULT_INLINE_LIMIT_BYTES, gt=0, description="Without compression, larger outputs are an error."
    )


class OutputScope(Contract):
    """The owner of an output and the call that produced it. Only the caller `caller_id` can read it."""

    caller_id: str
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str = Field(description="The model's id of the call; without a model, the task's id.")
    task_id: str = Field(description="The task that produced it. Its outputs are kept while it runs.")


class FieldSummary(Contract):
    """A field of the rows: its JSON types and the share of the sampled rows in which it has a value."""

    name: str
    types: tuple[str, ...]
    fill_rate: float = Field(ge=0, le=1)


class StoredOutput(Contract):
    """A stored output, as answers and events show it."""

    locator: str
    kind: Annotated[OutputKind, OPEN]
    content_type: str
    size_bytes: int = Field(description="Size of the content, uncompressed.")
    stored_bytes: int = Field(description="Size of the stored objects.")
    count: int | None = Field(default=None, description="Number of rows, or of elements of a JSON list.")
    digest: str = Field(description="SHA-256 of the content, checked on every read: `sha256:` and hexadecimal.")
    created_at: datetime
    expires_at: datetime
    fields: tuple[FieldSummary, ...] = ()
    summary: str = Field(description=f"A description of the content, at most {MAX_SUMMARY_CHARS} characters.")


class StoreDatasetInput(Contract):
    """Input of `store_dataset`: stores a whole dataset of the platform."""

    caller: Caller
    scope: OutputScope
    dataset_id: str
    ttl_seconds: int = DEFAULT_TTL_SECONDS
    preview_rows: int = 20
    preview_bytes: int = 1_024
    preview_text_chars: int = 60


class StoredDataset(Contract):
    """A stored dataset, and its first rows, shortened."""

    output: StoredOutput
    preview: DatasetPage


class StoreRecordInput(Contract):
    """Input of `store_record`: stores a whole record of a key-value store."""

    caller: Caller
    scope: OutputScope
    store_id: str
    key: str
    ttl_seconds: int = DEFAULT_TTL_SECONDS


class StoreContentInput(Contract):
    """Input of `store_content`: stores the result of a tool, which is in `text`, `value` or `blob_base64`."""

    scope: OutputScope
    kind: OutputKind
    content_type: str
    text: str | None = None
    value: JsonValue = None
    blob_base64: str | None = None
    ttl_seconds: int = DEFAULT_TTL_SECONDS


class RestoreOutputInput(Contract):
    """Input of `restore_output`: a part of a stored output. `offset` and `limit` count rows when the output has rows,
    and bytes otherwise. `filter` (JMESPath, on each row) and `fields` (dot paths) apply to rows; `query` (JMESPath) to
    each row, or to the whole value.
    """

    caller: Caller
    locator: str
    offset: int = Field(default=0, ge=0)
    limit: int | None = Field(default=None, ge=1)
    fields: tuple[str, ...] = ()
    filter: str | None = None
    query: str | None = None
    max_bytes: int = Field(default=DEFAULT_RESTORE_BYTES, ge=1, le=MAX_RESTORE_BYTES)


class RestoredOutput(Contract):
    """A part of a stored output: `items` for rows, `value` for JSON, otherwise `text` or `blob_base64`."""

    locator: str
    kind: OutputKind
    content_type: str
    size_bytes: int
    count: int | None = None
    items: tuple[JsonValue, ...] | None = None
    value: JsonValue = None
    text: str | None = None
    blob_base64: str | None = None
    offset: int = 0
    next_offset: int | None = Field(default=None, description="Where the next part starts; None at the end.")
    matched: int | None = Field(default=None, description="With a filter: the rows of this part that match.")
    oversized_row_bytes: int | None = Field(
        default=None, description="Size of the first row when it alone exceeds `max_bytes`: select fields."
    )


class SweepInput(Contract):
    """Input of `sweep_page`: sweeps one page of the store."""

    cursor: str | None = None
    page_size: int = Field(default=500, ge=1, le=1_000)


class SweepReport(Contract):
    """The result of a sweep, in objects. `cursor` is where the next page starts; None at the end."""

    scanned: int = 0
    deleted: int = 0
    freed_bytes: int = 0
    cursor: str | None = None
