"""Pages of datasets. A page of a run's dataset can also have the keys of the run's store and the schema of its rows.

Infers the JSON Schema of rows. Pure: the same rows give the same schema.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypedDict, TypeVar

import orjson
from pydantic import JsonValue
from temporalio import activity

from outlast.activities import apify
from outlast.activities.contracts import JsonObject
from outlast.activities.failures.classify import explain_not_found, not_found, redact
from outlast.activities.heartbeat import activity_scope
from outlast.activities.json_values import NestedTooDeeply, is_too_deep, loads, read, text_of, value_of
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform.valid_responses import replaced_in
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage, DatasetSchema, DatasetSchemaInput

_FORMATS = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII),
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII),
    "uri": re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[!-~]+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII),
}
_MAX_DEPTH = 8
_MAX_FIELDS = 200
"""An object with more names than this counts as a map: its names are data."""


def schema_of_items(items: Sequence[JsonValue]) -> JsonObject:
    """A schema that is valid for all `items`: fields that some lack are optional, mixed types become unions. Without
    rows it is `{}`, which is valid for any value.
    """
    return _schema_of(items, depth=0)


def simplified_schema(schema: JsonObject, *, max_bytes: int) -> JsonObject:
    """`schema`, or when it is larger than `max_bytes`, a looser schema that is valid for the same rows. The looser
    schema loses the deepest levels first, then `required`, then the last properties.
    """
    if _size(schema) <= max_bytes:
        return schema
    for depth in range(_MAX_DEPTH, 0, -1):
        shallow = _cut_below(schema, depth)
        if _size(shallow) <= max_bytes:
            return shallow
    return _first_properties(_cut_below(schema, 1), max_bytes)


def _size(schema: JsonObject) -> int:
    return len(orjson.dumps(schema))


def _first_properties(schema: JsonObject, max_bytes: int) -> JsonObject:
    kept: JsonObject = {}
    kind: JsonObject = {"type": schema["type"]} if "type" in schema else {}
    looser: JsonObject = {**kind, "properties": kept}
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        kept[name] = part
        if _size(looser) > max_bytes:
            del kept[name]
            break
    return looser if kept else kind


def _cut_below(schema: JsonObject, depth: int) -> JsonObject:
    """`schema` with at most `depth` levels of properties and items; deeper levels allow any value."""
    kept = {key: value for key, value in schema.items() if key not in ("properties", "items", "required", "anyOf")}
    options = schema.get("anyOf")
    if isinstance(options, list):
        kept["anyOf"] = [_cut_below(option, depth) for option in options if isinstance(option, dict)]
    if depth == 0:
        return kept
    if isinstance(properties := schema.get("properties"), dict):
        kept["properties"] = {
            name: _cut_below(part, depth - 1) for name, part in properties.items() if isinstance(part, dict)
        }
        kept |= {"required": schema["required"]} if "required" in schema else {}
    if isinstance(items := schema.get("items"), dict):
        kept["items"] = _cut_below(items, depth - 1)
    return kept


def _schema_of(values: Sequence[JsonValue], *, depth: int) -> JsonObject:
    scalars = dict.fromkeys(name for value in values if (name := _scalar_type(value)) is not None)
    if "number" in scalars:
        scalars.pop("integer", None)
    objects = [value for value in values if isinstance(value, dict)]
    arrays = [value for value in values if isinstance(value, list)]
    nested: list[JsonObject] = []
    if objects:
        nested.append(_schema_of_objects(objects, depth=depth))
    if arrays:
        nested.append(_schema_of_arrays(arrays, depth=depth))
    strings = [value for value in values if isinstance(value, str)]
    found = _union(list(scalars), nested)
    form = _format_of(strings)
    return {**found, "format": form} if form else found


def _scalar_type(value: JsonValue) -> str | None:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return None


def _format_of(strings: Sequence[str]) -> str | None:
    """The format (JSON Schema 2020-12, section 7.3) that all `strings` have. It does not restrict other types."""
    if not strings:
        return None
    return next((name for name, form in _FORMATS.items() if all(map(form.fullmatch, strings))), None)


def _union(scalars: list[str], nested: list[JsonObject]) -> JsonObject:
    if not nested:
        return {"type": scalars[0]} if len(scalars) == 1 else {"type": [*scalars]} if scalars else {}
    if len(nested) == 1 and not scalars:
        return nested[0]
    simple: list[JsonObject] = [{"type": name} for name in scalars]
    return {"anyOf": [*simple, *nested]}


def _schema_of_objects(objects: list[JsonObject], *, depth: int) -> JsonObject:
    fields: dict[str, list[JsonValue]] = {}
    for value in objects:
        for name, part in value.items():
            fields.setdefault(name, []).append(part)
    if depth >= _MAX_DEPTH or len(fields) > _MAX_FIELDS:
        return {"type": "object"}
    properties: JsonObject = {name: _schema_of(parts, depth=depth + 1) for name, parts in fields.items()}
    required: list[JsonValue] = [name for name, parts in fields.items() if len(parts) == len(objects)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _schema_of_arrays(arrays: list[list[JsonValue]], *, depth: int) -> JsonObject:
    elements = [element for array in arrays for element in array]
    if depth >= _MAX_DEPTH or not elements:
        return {"type": "array"}
    return {"type": "array", "items": _schema_of(elements, depth=depth + 1)}


_SHOWN_ENTRIES = 3
_SHORTER_AND_SHORTER = (16_000, 4_000, 1_000, 250, 60)
"""Characters that are left of each text in a row that is too large for a page: the most with which it fits."""


async def fetch_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, *, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page for `request`, which ends before the row that would exceed its size. `uncut` receives the rows before
    they are shortened, including the first that does not fit.
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
        # Empty rows are left out here and not by the platform, so that the page has the range of its rows.
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
    """Yield the non-empty lines of a streamed body; memory holds one line and one chunk."""
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
    """Return a list with the value at `path`, empty without one."""
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
    """Return the row, and whether it is nested so deeply that a part of it is given as text."""
    if request.paths:
        with suppress(NestedTooDeeply):
            return picked(loads(line), request.paths), False
        return {}, False
    row, is_changed = read(line)
    # Rows are objects, also one that no parser reads.
    return {"unparsed": row} if is_changed and isinstance(row, str) else row, is_changed


def _shown(row: JsonValue, line: bytes, request: DatasetItemsInput) -> tuple[JsonValue, int]:
    """Return the row for the page and its size in bytes; None and 0 for a row that is left out."""
    if request.clean and (row is None or row == {}):
        return None, 0
    if request.max_text_chars is not None:
        row = shortened(row, request.max_text_chars)
    is_changed = request.paths or request.max_text_chars is not None
    return row, len(text_of(row)) if is_changed else len(line)


def _fitting(row: JsonValue, max_bytes: int) -> tuple[JsonValue, int]:
    """Return the row with shortened texts and lists, and its size in bytes; None and 0 if that is still too large."""
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


class DatasetActivities:
    """Reads the datasets of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def fetch_dataset_items(self, request: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset, which ends before the row that would exceed `max_bytes`. With `describe_run_store` the
        page also has the keys of that store, where they can be listed, and the schema of its rows. Fails with
        `not_found` if the caller cannot see the dataset.
        """
        async with activity_scope():
            return await fetch_described_page(self._platform.client(request.caller), request)

    @activity.defn
    async def infer_dataset_schema(self, request: DatasetSchemaInput) -> DatasetSchema:
        """Return the schema of a dataset's first rows. Fails with `not_found` if the caller cannot see the dataset."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await fetch_known_page(
                client,
                DatasetItemsInput(
                    caller=request.caller,
                    dataset_id=request.storage_id,
                    limit=request.limit,
                    clean=request.clean,
                    max_bytes=request.max_bytes,
                ),
            )
            schema = await asyncio.to_thread(schema_of_items, page.items)
            fitting = simplified_schema(schema, max_bytes=request.max_schema_bytes)
            return DatasetSchema(
                dataset_id=request.storage_id,
                item_schema=fitting,
                rows_read=len(page.items),
                total=page.total,
                simplified=fitting is not schema,
                replaced_text=page.replaced_text,
            )


_EMPTY_PROBES = 6
_EMPTY_PROBE_PAUSE = timedelta(milliseconds=500)
"""A dataset's count can lag a few seconds behind its items after a run has ended."""
_DESCRIBED_SCHEMA_BYTES = 700
"""Together with a preview of 2 KB this stays a small part of a run's history."""
_DESCRIBED_KEYS = 20
_EXTRAS_SECONDS = 10.0
"""The time that a page waits for the keys and the Actor's name."""

Extra = TypeVar("Extra")


async def fetch_described_page(client: "apify.ApifyClientAsync", request: DatasetItemsInput) -> DatasetPage:
    """The page for `request`; with `describe_run_store` also that store's keys and the schema of the rows. Keys that
    cannot be listed are left out. Fails with `not_found` if the caller cannot see the dataset.
    """
    if request.describe_run_store is None:
        return await _fetch_expected_page(client, request)
    uncut: list[JsonValue] = []
    extras = asyncio.create_task(_extras(client, request.describe_run_store, request.describe_run_actor))
    try:
        page = await _fetch_expected_page(client, request, uncut)
        return await _described(page, uncut, await extras)
    finally:
        extras.cancel()


async def _fetch_expected_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """Return the page. When rows are expected and there are none, it is read again for a few seconds."""
    page = await fetch_known_page(client, request, uncut)
    probes = _EMPTY_PROBES if request.expect_items else 0
    while not page.items and not page.rows_cut and page.total <= request.offset and probes:
        await asyncio.sleep(_EMPTY_PROBE_PAUSE.total_seconds())
        page = await fetch_known_page(client, request, uncut)
        probes -= 1
    return page


async def _described(page: DatasetPage, uncut: list[JsonValue], extras: "_Extras") -> DatasetPage:
    schema = await asyncio.to_thread(schema_of_items, uncut) if uncut else None
    fitting = simplified_schema(schema, max_bytes=_DESCRIBED_SCHEMA_BYTES) if schema else None
    return page.model_copy(update={"items_schema": fitting, **extras})


class _Extras(TypedDict):
    keys: tuple[str, ...] | None
    actor_name: str | None


async def _extras(client: "apify.ApifyClientAsync", store_id: str, actor_id: str | None) -> _Extras:
    keys, actor_name = await asyncio.gather(
        _if_possible(_first_keys(client, store_id), f"keys of store {store_id}"),
        _if_possible(_actor_name(client, actor_id), f"name of Actor {actor_id}"),
    )
    return _Extras(keys=keys, actor_name=actor_name)


async def _if_possible(fetching: Awaitable[Extra], what: str) -> Extra | None:
    """Return the result of `fetching`; when that fails, None and a warning in the log."""
    try:
        async with asyncio.timeout(_EXTRAS_SECONDS):
            return await fetching
    except Exception as error:  # noqa: BLE001 (rows without these are better than no rows)
        activity.logger.warning("Cannot read the %s: %s", what, redact(repr(error)))
        return None


async def _first_keys(client: "apify.ApifyClientAsync", store_id: str) -> tuple[str, ...]:
    page = await client.key_value_store(store_id).list_keys(limit=_DESCRIBED_KEYS)
    return tuple(item.key for item in page.items)


async def _actor_name(client: "apify.ApifyClientAsync", actor_id: str | None) -> str | None:
    found = await client.actor(actor_id).get() if actor_id else None
    return f"{found.username}/{found.name}" if found else None


async def fetch_known_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page; `uncut` receives the rows before they are shortened. Raises `ToolFailure` for an unknown dataset."""
    try:
        return await fetch_page(client, request, uncut=uncut)
    except apify.NotFoundError:
        raise await explain_not_found(client, "dataset", request.dataset_id) from None
