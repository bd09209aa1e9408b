"""Sources of items, as streams: a list in the request, JSON lines, CSV, a stored output, a dataset."""

import asyncio
import codecs
import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

import orjson
import zstandard
from pydantic import JsonValue

from outlast.activities import apify
from outlast.activities.json_numbers import number_flaws
from outlast.activities.json_values import is_too_deep
from outlast.activities.outputs.dataset_source import rows_from
from outlast.activities.outputs.reader import OutputReader
from outlast.activities.unicode_text import valid_json_text, valid_text
from outlast.api.errors import BatchTooLarge, UnsupportedMedia
from outlast.contracts.batches import BatchItem

_BOMS: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_KNOWN = re.compile(
    r"utf-8|utf-8-sig|utf-16|utf-16-le|utf-16-be|ascii|iso8859-\d+|cp125\d|cp(?:437|850|852|866|932|949|950)|mac-[a-z]+|koi8-[rut]"
    r"|gb18030|gbk|gb2312|big5|euc_jp|euc_kr|shift_jis|tis-620"
)
"""Python's names of encodings of files. Its other codecs, such as `idna` and `unicode_escape`, are not."""
_OF_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Characters, and halves of surrogate pairs as three bytes."""
_CUT = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{1,2}|[\xfe\xff]")
"""The beginning of a character that was cut off, and bytes that are rare in any encoding."""
_OTHER = re.compile(rb"[\x80-\xff]")
_LONGEST_LINE = 1024 * 1024
MAX_LINE_BYTES = 128 * 1024
"""Limit of a line: the arguments of an item may have half of that, beside unused fields."""
DELIMITERS = (",", ";", "\t", "|")
_NAMED_DELIMITER = re.compile(r"sep=(.)\s*$", re.IGNORECASE | re.MULTILINE)
"""The first line of a spreadsheet, with the delimiter."""
_SAMPLE_BYTES = 64 * 1024
_SAMPLE_ROWS = 50
_ROWS_AT_ONCE = 100
"""Rows that are parsed before the event loop serves other requests."""
Media = Literal["jsonl", "csv"]


@dataclass(frozen=True)
class SourceRow:
    """One row, or the `problem` of a row that cannot be read."""

    number: int
    value: JsonValue = None
    problem: str | None = None


Rows = AsyncGenerator[SourceRow]


class UploadedBody:
    """A request's body, kept compressed until it is read line by line."""

    def __init__(self, *, max_bytes: int, charset: str | None = None) -> None:
        """Receive at most `max_bytes`, in the encoding of the request. Raises `UnsupportedMedia`."""
        self._max_bytes = max_bytes
        try:
            self._text = Utf8Text(charset)
        except UnknownCharset as error:
            raise UnsupportedMedia(str(error)) from None
        self._compressor = zstandard.ZstdCompressor(level=1).compressobj()
        self._pieces: list[bytes] = []
        self._size = 0

    async def receive(self, chunks: AsyncIterable[bytes]) -> None:
        """Receive the whole body. Raises `BatchTooLarge`, or `UnsupportedMedia` for an unknown encoding."""
        async for chunk in chunks:
            self._size += len(chunk)
            if self._size > self._max_bytes:
                raise BatchTooLarge(
                    f"The items are larger than {self._max_bytes} bytes (`OUTLAST_MAX_BATCH_BYTES`). Nothing was "
                    f"started: split them into several batches, or store them in a dataset and pass its id as `rows`."
                )
            self._keep(self._text.feed, chunk)
        self._keep(self._text.end)
        self._pieces.append(self._compressor.flush())

    def check_count(self, media: Media, *, delimiter: str | None, max_items: int) -> None:
        """Raise `BatchTooLarge` for too many items, which is cheaper to find out here. Takes up to a second."""
        with self.opened() as content:
            rows = _lines(content) if media == "jsonl" else _csv_rows(content, delimiter or _delimiter_of(self))
            if next(islice(rows, max_items, None), None) is not None:
                raise too_many_items(max_items)

    def _keep(self, as_utf8: Callable[..., bytes], *chunk: bytes) -> None:
        try:
            self._pieces.append(self._compressor.compress(as_utf8(*chunk)))
        except NotInCharset as error:
            raise UnsupportedMedia(f"{error} Nothing was started.") from None

    def opened(self) -> io.BufferedReader:
        """Its content."""
        packed = io.BytesIO(b"".join(self._pieces))
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(packed))


def too_many_items(most: int) -> BatchTooLarge:
    """The error for a batch with more items than its caller's limit."""
    advice = "Nothing was started: split them into several batches."
    return BatchTooLarge(f"The batch has more than {most} items (`batch_items` in the operator's policy). {advice}")


async def inline_rows(items: Iterable[BatchItem]) -> Rows:
    """Items of a request, counted from 1."""
    for number, item in enumerate(items, start=1):
        yield SourceRow(number, {"key": item.key, "arguments": item.arguments})
        await _give_way(number)


async def uploaded_rows(body: UploadedBody, media: Media, *, delimiter: str | None) -> Rows:
    """Rows of an uploaded file, by the number of their line. Without a `delimiter`, that of CSV is detected."""
    with body.opened() as content:
        rows = _json_lines(content) if media == "jsonl" else _csv_rows(content, delimiter or _delimiter_of(body))
        for count, row in enumerate(rows):
            yield row
            await _give_way(count)


async def output_rows(reader: OutputReader, *, offset: int, limit: int | None) -> Rows:
    """Rows of a stored output, counted from 1."""
    number = offset
    async for batch in reader.row_batches(offset, limit):
        for row in batch:
            number += 1
            yield _parsed(number, row)
            await _give_way(number)


async def dataset_rows(client: "apify.ApifyClientAsync", dataset_id: str, *, offset: int, limit: int | None) -> Rows:
    """Rows of a dataset, counted from 1. Raises what the platform's client raises."""
    number = offset
    async for batch in rows_from(client, dataset_id, offset):
        for line in batch.lines.split(b"\n")[:-1]:
            if limit is not None and number - offset >= limit:
                return
            number += 1
            yield _parsed(number, line)
            await _give_way(number)


async def _give_way(count: int) -> None:
    if count % _ROWS_AT_ONCE == 0:
        await asyncio.sleep(0)


def _json_lines(content: io.BufferedReader) -> Iterator[SourceRow]:
    for number, line in _lines(content):
        yield _parsed(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)


def _lines(content: io.BufferedReader) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their number. A line that is too long is cut off."""
    number = 0
    while line := content.readline(MAX_LINE_BYTES + 2):
        number += 1
        if line.strip() or len(line) > MAX_LINE_BYTES:
            yield number, line
        while line and not line.endswith(b"\n"):
            line = content.readline(MAX_LINE_BYTES)


def _parsed(number: int, line: bytes) -> SourceRow:
    if len(line) > MAX_LINE_BYTES + 1:
        return SourceRow(number, problem=f"It is longer than {MAX_LINE_BYTES} bytes.")
    if flaws := number_flaws(line):
        return SourceRow(number, problem=f"{flaws[0].path}: {flaws[0].message}")
    try:
        value: JsonValue = orjson.loads(valid_json_text(line))
    except orjson.JSONDecodeError as error:
        return SourceRow(number, problem=f"It is not JSON: {error.msg}, at character {error.colno}.")
    if is_too_deep(value):
        return SourceRow(number, problem="It is nested too deeply.")
    return SourceRow(number, value)


def _delimiter_of(body: UploadedBody) -> str:
    with body.opened() as content:
        return detected_delimiter(content.read(_SAMPLE_BYTES).decode("utf-8-sig", errors="replace"))


def detected_delimiter(sample: str) -> str:
    """The delimiter of CSV that begins with `sample`: the one that gives the most columns, the same number in each row.

    Spreadsheets write semicolons if the comma is the decimal separator, and may have a first line such as `sep=;`.
    """
    named = _NAMED_DELIMITER.match(sample)
    if named is not None and named[1] in DELIMITERS:
        return named[1]
    return max(DELIMITERS, key=lambda delimiter: _evenness(sample, delimiter))


def _evenness(sample: str, delimiter: str) -> tuple[bool, int]:
    """Return whether all rows of the sample have as many values as the first one, and this number."""
    # The last row may be cut off.
    text = sample if len(sample) < _SAMPLE_BYTES // 4 else sample[: sample.rfind("\n") + 1]
    try:
        counts = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error:
        return False, 0
    columns = counts[0] if counts else 0
    return columns > 1 and counts[:_SAMPLE_ROWS] == [columns] * len(counts[:_SAMPLE_ROWS]), columns


def _csv_rows(content: io.BufferedReader, delimiter: str) -> Iterator[SourceRow]:
    """Rows of CSV (RFC 4180) with a header line. Values are texts, or None for an empty cell."""
    text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    names: list[str] | None = None
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            yield SourceRow(max(1, reader.line_num), problem=f"It is not CSV: {error}.")
            return
        if values is None:
            return
        number = reader.line_num
        if not any(values) or (number == 1 and _NAMED_DELIMITER.match(delimiter.join(values))):
            continue
        if names is None:
            names = [valid_text(name) for name in values]
            named = [name for name in names if name]
            if len(set(named)) != len(named):
                yield SourceRow(number, problem="Two columns have the same name in the first line.")
                return
        elif len(values) != len(names):
            counts = f"It has {len(values)} values, but the first line {len(names)} names"
            yield SourceRow(number, problem=f"{counts} (delimiter {delimiter!r}).")
        else:
            yield _csv_row(number, names, values)


def _csv_row(number: int, names: list[str], values: list[str]) -> SourceRow:
    """The row. A column without a name must be empty: some spreadsheets end each line with the delimiter."""
    cells = list(zip(names, values, strict=True))
    if any(value and not name for name, value in cells):
        return SourceRow(number, problem="It has a value in a column without a name.")
    return SourceRow(number, {name: valid_text(value) or None for name, value in cells if name})


class UnknownCharset(ValueError):
    """An unknown encoding. The text is for the caller."""


class NotInCharset(ValueError):
    """A file in another encoding than named. The text is for the caller."""


class Utf8Text:
    """Converts a body to UTF-8, chunk by chunk. UTF-8 is not changed, even if it is invalid in some places."""

    def __init__(self, charset: str | None) -> None:
        """Convert from the `charset` of the request. Raises `UnknownCharset`."""
        named = _python_name(charset) if charset else None
        self._charset = None if named in ("utf-8", "utf-8-sig") else named
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False
        self._rest = b""
        self._lines = 1
        self._good = self._odd = 0
        self._odd_line = 0

    def feed(self, chunk: bytes) -> bytes:
        """Convert a part of the body. Raises `NotInCharset`."""
        if not self._begun:
            chunk = self._rest + chunk
            if len(chunk) < 2:
                self._rest = chunk
                return b""
            chunk, self._rest = self._begin(chunk), b""
        if self._decoder is not None:
            return self._decoded(chunk, final=False)
        self._look_at(chunk)
        return chunk

    def end(self) -> bytes:
        """Convert the rest of the body. Raises `NotInCharset`."""
        rest = b""
        if not self._begun:
            rest, self._rest = self._begin(self._rest), b""
        if self._decoder is not None:
            return self._decoded(rest, final=True)
        self._look_at(rest, final=True)
        if self._odd > self._good:
            raise NotInCharset(
                f"Line {self._odd_line} is not UTF-8, and the request does not name another encoding. Save the file as "
                "UTF-8 (`CSV UTF-8` in spreadsheets), or send `Content-Type: text/csv; charset=windows-1252`."
            )
        return rest

    def _begin(self, chunk: bytes) -> bytes:
        self._begun = True
        mark = next(((bom, name) for bom, name in _BOMS if chunk.startswith(bom)), None)
        if mark is not None and (self._charset is None or self._charset.startswith("utf-16")):
            chunk, self._charset = chunk.removeprefix(mark[0]), mark[1]
        if self._charset is not None:
            is_utf16 = self._charset.startswith("utf-16")
            self._decoder = codecs.getincrementaldecoder(self._charset)("surrogatepass" if is_utf16 else "strict")
        return chunk

    def _decoded(self, chunk: bytes, *, final: bool) -> bytes:
        assert self._decoder is not None
        try:
            return valid_text(self._decoder.decode(chunk, final)).encode()
        except UnicodeDecodeError as error:
            raise NotInCharset(f"The file is not in the encoding {self._charset}: {error.reason}.") from None

    def _look_at(self, chunk: bytes, *, final: bool = False) -> None:
        """Count the characters of UTF-8, and the bytes of another encoding."""
        data = self._rest + chunk
        # A character may be cut off at the end of a chunk, but not at the end of a line.
        end = len(data) if final or len(data) > _LONGEST_LINE else data.rfind(b"\n") + 1
        data, self._rest = data[:end], data[end:]
        if not data.isascii():
            rest, characters = _OF_UTF8.subn(b"", data)
            others = _CUT.sub(b"", rest)
            self._good += characters
            first = _OTHER.search(others)
            if first is not None:
                self._odd_line = self._odd_line or self._lines + others.count(b"\n", 0, first.start())
                self._odd += len(_OTHER.findall(others))
        self._lines += data.count(b"\n")


def _python_name(charset: str) -> str:
    try:
        name = codecs.lookup(charset.strip().strip("\"'")).name
    except (LookupError, ValueError):
        name = ""
    if not _KNOWN.fullmatch(name):
        raise UnknownCharset(f"The encoding {charset[:60]!r} is not known. Save the file as UTF-8.")
    return name
