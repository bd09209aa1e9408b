"""The object store behind outputs: a folder, S3, GCS or Azure, through obstore.

parts/<scope>/<task id>.<16 hex>/00000.<16 hex>.zst   frames, written as they come in, never changed
manifests/<scope>/<name>.json                         written last, in one step: what can be found is whole
tombstones/<scope>/<name>.json                        why an output is gone
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, ObjectStore, from_url

from outlast.activities.outputs.format.errors import OutputDamaged, StoreUnavailable

if TYPE_CHECKING:
    from obstore import ListResult, ListStream, ObjectMeta

_LIST_CHUNK = 500
_STAGED = re.compile(r".+#\d+")
"""How obstore names a file on disk that is not complete yet; after a crash it stays."""
_ENDPOINTS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_storage_endpoint")
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


@dataclass(frozen=True)
class StoredObject:
    """An object as a listing shows it."""

    key: str
    size: int
    modified_at: datetime


class OutputObjects:
    """Objects by key.

    Every method raises `StoreUnavailable` (worth a retry), `PermissionError`, or `OSError` for a folder that cannot be
    written.
    """

    def __init__(self, store: ObjectStore, folder: Path | None = None) -> None:
        """Keep objects in `store`; `folder` is where it is, when it is on disk."""
        self._store = store
        self._folder = folder

    @classmethod
    def open(cls, url: str, **options: Any) -> "OutputObjects":
        """A store by URL: `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder`, or the path of a folder.

        Credentials and endpoints come from the usual variables of each service (`AWS_ACCESS_KEY_ID`,
        `AWS_ENDPOINT_URL`, …) or from `options`, named as obstore names them. Plain HTTP is spoken only to an endpoint
        that is given as `http://…`.
        """
        if "://" not in url or url.startswith("file://"):
            path = Path(unquote(urlsplit(url).path) if url.startswith("file://") else url).expanduser().resolve()
            return cls(LocalStore(path, mkdir=True, automatic_cleanup=True), path)
        return cls(_store_at(url, **{"client_options": _client_options(options), "retry_config": _RETRIES, **options}))

    async def put(self, key: str, data: bytes) -> None:
        """Write an object in one step: a reader sees the old one or the new one, and a crash leaves nothing of it."""
        with _own_errors():
            # A multipart upload would survive a crash on the server, where no listing shows it.
            await obstore.put_async(self._store, key, data, use_multipart=False)

    async def get(self, key: str) -> bytes | None:
        """A whole object, or None when there is none."""
        try:
            with _own_errors():
                result = await obstore.get_async(self._store, key)
                return bytes(await result.bytes_async())
        except FileNotFoundError:
            return None

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` (exclusive). Raises `OutputDamaged` when the object is gone or too short."""
        if not 0 <= start < end:
            raise OutputDamaged("A part is shorter than its index says.")
        try:
            with _own_errors():
                data = bytes(await obstore.get_range_async(self._store, key, start=start, end=end))
        except FileNotFoundError as error:
            raise OutputDamaged("A part is missing.") from error
        except OSError as error:
            # A range that lies behind the end is no failure of the store.
            size = await self.size(key)
            if size is None or size < end:
                raise OutputDamaged("A part is shorter than it was.") from error
            raise
        if len(data) != end - start:
            raise OutputDamaged("A part is shorter than it was.")
        return data

    async def size(self, key: str) -> int | None:
        """Size of an object in bytes, or None when there is none."""
        try:
            with _own_errors():
                return (await obstore.head_async(self._store, key))["size"]
        except FileNotFoundError:
            return None

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, also staged leftovers; one that is gone already is no error."""
        for key in keys:
            if _STAGED.fullmatch(key) and self._folder is not None:
                await asyncio.to_thread(_inside(self._folder, key).unlink, missing_ok=True)
                continue
            try:
                with _own_errors():
                    await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                continue

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        """Objects in the folder `prefix` and below, in pages. What is still being written is not among them."""
        with _own_errors():
            chunks: ListStream[Sequence[ObjectMeta]]
            chunks = obstore.list(self._store, prefix, chunk_size=_LIST_CHUNK)  # pyright: ignore[reportUnknownMemberType]
            async for chunk in chunks:
                for entry in chunk:
                    yield StoredObject(entry["path"], entry["size"], entry["last_modified"])

    async def folders(self, prefix: str) -> tuple[str, ...]:
        """Names of the folders in the folder `prefix`, sorted."""
        with _own_errors():
            found: ListResult[Sequence[ObjectMeta]]
            found = await obstore.list_with_delimiter_async(self._store, prefix)  # pyright: ignore[reportUnknownMemberType]
        return tuple(sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]))

    async def staged_leftovers(self) -> tuple[StoredObject, ...]:
        """Files of writings that are going on or were killed; only a store on disk has any. Young ones may be alive."""
        folder = self._folder
        return () if folder is None else await asyncio.to_thread(lambda: tuple(_staged_below(folder)))


def part_key(scope: str, upload: str, number: int, stored_digest: str) -> str:
    """Where a part is. The name carries a digest of the object, so that no attempt overwrites another's part."""
    return f"{parts_prefix(scope, upload)}/{number:05d}.{stored_digest[:16]}.zst"


def parts_prefix(scope: str, upload: str) -> str:
    """Where the parts of one upload are."""
    return f"parts/{scope}/{upload}"


_store_at = cast("Callable[..., ObjectStore]", from_url)
"""Its stubs want the names of one service's options; which service it is, the URL says."""


def _client_options(options: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = dict(options.pop("client_options", {}))
    endpoints = [str(options.get(name, "")) for name in _ENDPOINTS]
    endpoints += [os.environ.get(name.upper(), "") for name in _ENDPOINTS]
    allow_http = any(endpoint.startswith("http://") for endpoint in endpoints)
    timeouts = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(minutes=5)}
    return {**timeouts, "allow_http": allow_http, **given}


@contextmanager
def _own_errors() -> Generator[None]:
    """obstore's exceptions as those that the rest of the program knows; `FileNotFoundError` passes as it is."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(f"The output store refuses access: {_first_line(error)}") from error
    except BaseError as error:
        raise StoreUnavailable(f"The output store does not answer: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """obstore appends a dump of its own structures, with addresses in it."""
    return str(error).partition("\n")[0][:300]


def _inside(folder: Path, key: str) -> Path:
    path = (folder / key).resolve()
    if not path.is_relative_to(folder):
        raise PermissionError("A key may not lead out of the store.")
    return path


def _staged_below(folder: Path) -> Iterable[StoredObject]:
    for path in folder.rglob("*#*"):
        if not _STAGED.fullmatch(path.name):
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # It was completed meanwhile.
        yield StoredObject(
            path.relative_to(folder).as_posix(), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC)
        )
