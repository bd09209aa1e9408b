"""The rows of a dataset, read as a stream: memory holds the current row and the page so far."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.not_found import not_found
from outlast.activities.json_values import NestedTooDeeply, is_too_deep, loads, read, text_of, value_of
from outlast.activities.platform import apify
from outlast.activities.platform.valid_responses import replaced_in
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage

_SHOWN_ENTRIES = 3
_SHORTER_AND_SHORTER = (16_000, 4_000, 1_000, 250, 60)
"""Characters that are left of each text in a row that is too large for a page: the most with which it fits."""


async def fetch_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, *, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page for `request`, which ends before the row that would exceed its size.

    `uncut` receives the rows before they are shortened, including the first that does not fit.
    """
    items: list[JsonValue] = []
    size, rows_read, is_cut, large_row_bytes, has_nested = 0, 0, False, None, False
    async with client.dataset(request.dataset_id).stream_items(
        item_format="jsonl",
        offset=request.offset,
        limit=request.limit,
        fields=_fields_to_ask_for(request),
        omit=list(request.omit) or None,
        flatten=list(request.flatten) or None,
        # Empty rows are left out here and not by the platform, so that the page knows which rows it spans.
        skip_hidden=request.clean or None,
        desc=request.desc or None,
    ) as response:
        total_header = response.headers.get("x-apify-pagination-total")
        async for line in lines_of(response):
            whole, is_changed = _selected(line, request)
            has_nested = has_nested or is_changed
            row, row_bytes = _shown(whole, line, request)
            if uncut is not None and row is not None:
                uncut.append(whole)
            if size + row_bytes > request.max_bytes:
                if rows_read or not request.shorten_large_row:
                    is_cut = True
                    break
                large_row_bytes = row_bytes
                row, row_bytes = _fitting(row, request.max_bytes)
            rows_read += 1
            if row is not None:
                items.append(row)
                size += row_bytes
            elif rows_read == 1 and large_row_bytes is not None:
                is_cut = True
                break
        replaced_text = replaced_in(response)
    total = int(total_header) if total_header is not None else await _item_count(client, request.dataset_id)
    total = max(total, request.offset + rows_read) if rows_read else total
    fields = top_level_fields(items)
    if request.whole and (is_cut or request.offset + rows_read < total):
        items, rows_read, size = [], 0, 0
    return DatasetPage(
        dataset_id=request.dataset_id,
        items=tuple(items),
        offset=request.offset,
        limit=request.limit,
        total=total,
        fields=fields,
        rows_cut=max(0, min(request.limit, total - request.offset) - rows_read) if is_cut else 0,
        rows_read=rows_read,
        size_bytes=size,
        large_row_bytes=large_row_bytes,
        replaced_text=replaced_text,
        nested_rows=has_nested,
    )


async def lines_of(response: "apify.HttpResponse") -> AsyncIterator[bytes]:
    """The non-empty lines of a streamed body; memory holds one line and one chunk."""
    pieces: list[bytes] = []
    async for chunk in response.aiter_bytes():
        pieces.append(chunk)
        if b"\n" not in chunk:
            continue
        *whole, rest = b"".join(pieces).split(b"\n")
        pieces = [rest]
        for line in whole:
            if line.strip():
                yield line
    if (last := b"".join(pieces)).strip():
        yield last


def top_level_fields(items: Iterable[JsonValue]) -> tuple[str, ...]:
    """Names of the rows' top-level fields, in the order in which they first appear."""
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict):
            names.update(dict.fromkeys(item))
    return tuple(names)


def selected(line: bytes, paths: Sequence[str]) -> JsonValue:
    """The row in a line of JSON, reduced to `paths` if there are any; what is nested too deeply is given as text."""
    if not paths:
        return value_of(line)
    try:
        return picked(loads(line), paths)
    except ValueError:
        return {}


def picked(row: JsonValue, paths: Sequence[str]) -> JsonObject:
    """`row` reduced to dot paths, as one flat object: `{"crawl.statusCode": 200}`. Paths without a value are left out.

    A number in a path is a position in a list; any other name is looked up in each of the list's objects. A value that
    is nested too deeply is given as text.
    """
    found = ((path, _followed_to_its_end(row, path)) for path in paths)
    return {path: values[0] for path, values in found if values}


def _followed_to_its_end(row: JsonValue, path: str) -> list[JsonValue]:
    try:
        return [text_of(value).decode() if is_too_deep(value) else value for value in _followed(row, path)]
    except RecursionError:  # hundreds of lists in each other
        return []


def _followed(value: JsonValue, path: str) -> list[JsonValue]:
    """A list with the value at `path`, empty when there is no such value."""
    if not path:
        return [value]
    if isinstance(value, list):
        return _followed_in_list(value, path)
    if not isinstance(value, dict):
        return []
    if path in value:  # a name may contain dots itself
        return [value[path]]
    head, dot, rest = path.partition(".")
    return _followed(value[head], rest) if dot and head in value else []


def _followed_in_list(values: list[JsonValue], path: str) -> list[JsonValue]:
    head, _, rest = path.partition(".")
    if head.isdecimal():
        return _followed(values[int(head)], rest) if int(head) < len(values) else []
    found = [element for value in values for element in _followed(value, path)]
    return [found] if found else []


def _fields_to_ask_for(request: DatasetItemsInput) -> list[str] | None:
    """The fields to request from the platform: of a dot path the first field, since the platform selects no deeper."""
    heads = (path.partition(".")[0] for path in request.paths)
    return list(dict.fromkeys([*request.fields, *heads, *request.paths])) or None


def _selected(line: bytes, request: DatasetItemsInput) -> tuple[JsonValue, bool]:
    """The row, and whether it is nested so deeply that a part of it is given as text."""
    if request.paths:
        with suppress(NestedTooDeeply):
            return picked(loads(line), request.paths), False
        return {}, False
    row, is_changed = read(line)
    # Rows are objects, also one that no parser reads.
    return {"unparsed": row} if is_changed and isinstance(row, str) else row, is_changed


def _shown(row: JsonValue, line: bytes, request: DatasetItemsInput) -> tuple[JsonValue, int]:
    """The row for the page and its size in bytes; None and 0 for a row that is left out."""
    if request.clean and (row is None or row == {}):
        return None, 0
    if request.max_text_chars is not None:
        row = shortened(row, request.max_text_chars)
    is_changed = request.paths or request.max_text_chars is not None
    return row, len(text_of(row)) if is_changed else len(line)


def _fitting(row: JsonValue, max_bytes: int) -> tuple[JsonValue, int]:
    """The row with shortened texts and lists, and its size in bytes; None and 0 if that is still too large."""
    for max_chars in _SHORTER_AND_SHORTER:
        short = shortened(row, max_chars)
        size = len(text_of(short))
        if size <= max_bytes:
            return short, size
    return None, 0


async def _item_count(client: "apify.ApifyClientAsync", dataset_id: str) -> int:
    found = await client.dataset(dataset_id).get()
    if found is None:
        raise not_found(f"There is no dataset {dataset_id!r}.")
    return found.item_count


def shortened(value: JsonValue, max_chars: int) -> JsonValue:
    """`value` with texts of at most `max_chars` and lists of three entries, each with a note of what was left out."""
    if isinstance(value, str) and len(value) > max_chars:
        return f"{value[:max_chars]}… ({len(value)} characters)"
    if isinstance(value, list):
        shown = [shortened(part, max_chars) for part in value[:_SHOWN_ENTRIES]]
        left_out = len(value) - len(shown)
        return [*shown, f"… ({left_out} more)"] if left_out else shown
    if isinstance(value, dict):
        return {name: shortened(part, max_chars) for name, part in value.items()}
    return value
