"""Rows gathered into request bodies for the API."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BATCH_BYTES = 8_900_000
"""The size that batches approach. The API accepts request bodies of at most 9 MB."""


@dataclass(frozen=True)
class Batch:
    """A JSON array of rows in UTF-8, which takes a quarter of the memory of a `str` with an emoji in it.

    `size_bytes` counts the rows, each with the separator that follows it.
    """

    body: bytes
    row_count: int
    size_bytes: int


def gather(rows: Iterable[str], target_bytes: int | None, batch_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
    """Join rows into batches of at most `batch_bytes`, stopping with the row that reaches `target_bytes`."""
    pending: list[bytes] = []
    pending_bytes = total_bytes = 0
    for row in rows:
        if target_bytes is not None and total_bytes >= target_bytes:
            break
        encoded = row.encode()
        row_bytes = len(encoded) + 1
        if pending and pending_bytes + row_bytes > batch_bytes:
            yield _batch(pending, pending_bytes)
            pending, pending_bytes = [], 0
        pending.append(encoded)
        pending_bytes += row_bytes
        total_bytes += row_bytes
    if pending:
        yield _batch(pending, pending_bytes)


def _batch(rows: list[bytes], size_bytes: int) -> Batch:
    return Batch(b"[" + b",".join(rows) + b"]", len(rows), size_bytes)
