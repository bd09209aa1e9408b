"""`Intake`: maps rows to items, and admits each like a single call before anything is started."""

import difflib
import hashlib
import re
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import orjson
from pydantic import JsonValue, ValidationError

from outlast.activities.batches.contracts import MAX_ITEM_BYTES, MAX_KEY_CHARS, EqualCalls, ItemLine, Lines
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_numbers import number_flaws
from outlast.activities.json_values import MAX_VALUES, has_more_values, text_of
from outlast.activities.secrets import MASK, masked, places_of_masks
from outlast.api.batches.sources import SourceRow, too_many_items
from outlast.api.errors import BatchRefused, InvalidCall, MaskedToolCalled, ToolQuarantined, UnknownToolCalled
from outlast.api.tasks.admission import Admission, AdmittedCall
from outlast.contracts.batches import BatchSettings
from outlast.contracts.tasks import TaskRequest

_LONGEST_LIST = 100
_ITEM_FIELDS = frozenset({"key", "arguments"})
MISSING = object()
"""Result of `value_at` where there is no value."""
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)
_MOST_NAMES = 10
MAX_REPORTED = 20
"""Most refused items that are reported. Further rows are not read."""


@dataclass(frozen=True)
class Admitted:
    """Items that may run."""

    items: Lines
    first: AdmittedCall
    digest: str
    """Digest of the items as they were sent, which identifies a repeated request."""


class LineSink(Protocol):
    """Receives the lines of admitted items."""

    async def add(self, line: bytes) -> None:
        """Add one line, without its end."""
        ...

    async def finish(self) -> Lines:
        """Store the lines."""
        ...


@dataclass
class _Read:
    """The rows that were read so far."""

    keys: dict[bytes, int] = field(default_factory=dict[bytes, int])
    digest: Any = field(default_factory=hashlib.sha256)
    count: int = 0
    problems: list[Violation] = field(default_factory=list[Violation])


@dataclass(frozen=True)
class Mapped:
    """An item before it is admitted. `key` is None if it has none."""

    key: str | None
    arguments: JsonObject


@dataclass(eq=False)
class Intake:
    """Reads one batch for its caller."""

    admission: Admission
    caller: Caller
    settings: BatchSettings
    max_items: int

    def __post_init__(self) -> None:
        self._mapping = RowMapping(self.settings.arguments, self.settings.mapping, self.settings.key)

    async def admitted(self, rows: AsyncIterable[SourceRow], writer: LineSink, *, are_texts: bool) -> Admitted:
        """Admit all items and write them. With `are_texts`, values are texts to be converted by the tool's schema.

        Raises `BatchRefused` with the lines of invalid items, `BatchTooLarge`, and what `Admission.admit`, the rows and
        the writer raise.
        """
        read, first = _Read(), None
        schema: JsonObject | None = None
        async for row in rows:
            item = self._item(row, read)
            if item is not None and schema is None and (self.settings.mapping or not is_item(row.value)):
                schema = await self.admission.schema_of(self.caller, self._request(item))
                self._check_columns(row, schema, are_texts=are_texts)
            if item is not None and are_texts and schema is not None:
                arguments = typed(item.arguments, schema)
                if self._names_items_only(schema):
                    arguments.pop(self.settings.key or "", None)
                item = Mapped(item.key, arguments)
            call = await self._admit(row.number, item, read) if item is not None else None
            if call is not None and item is not None:
                first = first or call
                given = self._given(row.value, item, call)
                await writer.add(_line(item, row.number, call, first, self._identical_calls(call), given))
            if len(read.problems) >= MAX_REPORTED:
                break
        if read.problems:
            raise _refused(self.settings.tool, read.problems)
        if first is None:
            raise _refused(self.settings.tool, [Violation(path="", message="There are no items.")])
        return Admitted(await writer.finish(), first, read.digest.hexdigest())

    def _identical_calls(self, admitted: AdmittedCall) -> EqualCalls | None:
        """The calls that may answer the item, if the batch has the option; the operator's rules do not apply."""
        if self.settings.options.reuse is None or admitted.reuse is None:
            return None
        age = admitted.reuse.max_age
        return EqualCalls(digest=admitted.reuse.digest, max_age_seconds=age.total_seconds() if age else None)

    def _given(self, row: JsonValue, item: Mapped, admitted: AdmittedCall) -> JsonObject | None:
        """The row as it was given, without secrets; None if the stored arguments are the same."""
        if not isinstance(row, dict):
            return None
        if not self.settings.mapping and is_item(row):
            row = cast(JsonObject, row["arguments"])
        if row == admitted.call.arguments:
            return None
        return without_secrets(row, item, admitted.call.arguments)

    async def digest(self, rows: AsyncIterable[SourceRow]) -> str:
        """The digest of the items, without admitting them."""
        read = _Read()
        async for row in rows:
            self._item(row, read)
        return read.digest.hexdigest()

    def _item(self, row: SourceRow, read: _Read) -> Mapped | None:
        """The item of a row; None for an invalid row, whose problem is noted. Raises `BatchTooLarge`."""
        read.count += 1
        if read.count > self.max_items:
            raise too_many_items(self.max_items)
        try:
            if row.problem is not None:
                raise RowRefused(row.problem)
            item = self._mapping.item(row.value)
            content = orjson.dumps(item.arguments, option=orjson.OPT_SORT_KEYS)
            _check_size(item, content)
            key = item.key or str(row.number)
            before = read.keys.setdefault(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:16], row.number)
            if before != row.number:
                raise RowRefused(f"Its key {key!r} is also the key of line {before}: each item needs its own.")
        except RowRefused as error:
            read.problems.append(_problem(row.number, str(error)))
            return None
        except TypeError as error:
            read.problems.append(_problem(row.number, f"It cannot be written as JSON: {error}."))
            return None
        read.digest.update(orjson.dumps(item.key) + b"\0" + content + b"\n")
        return item

    def _names_items_only(self, schema: JsonObject) -> bool:
        """Return whether the column of the items' keys is not also an argument."""
        key = self.settings.key
        return not self.settings.mapping and key is not None and bool(unknown_columns([key], None, {}, schema))

    def _check_columns(self, row: SourceRow, schema: JsonObject, *, are_texts: bool) -> None:
        """Raise `BatchRefused` for columns that are not arguments. Rows of JSON may have some, but not only those."""
        settings = self.settings
        names = list(row.value) if isinstance(row.value, dict) else []
        unknown = unknown_columns(names, settings.key, settings.mapping, schema)
        is_strict = are_texts or settings.mapping
        if not unknown or not (is_strict or len(unknown) == len([name for name in names if name != settings.key])):
            return
        properties = schema.get("properties")
        known = list(properties) if isinstance(properties, dict) else []
        place = "The mapping writes into" if settings.mapping else "The rows have a field"
        problems = [Violation(path="", message=_no_argument(place, name, known)) for name in unknown[:MAX_REPORTED]]
        raise _refused(settings.tool, problems)

    async def _admit(self, number: int, item: Mapped, read: _Read) -> AdmittedCall | None:
        try:
            return await self.admission.admit(self.caller, self._request(item))
        except (UnknownToolCalled, MaskedToolCalled, ToolQuarantined):
            raise
        except InvalidCall as error:
            found = error.envelope.violations or (Violation(path="", message=error.envelope.message),)
            read.problems += [_problem(number, one.message, one.path) for one in found[:MAX_REPORTED]]
        except ValidationError as error:
            read.problems.append(_problem(number, error.errors(include_input=False)[0]["msg"]))
        return None

    def _request(self, item: Mapped) -> TaskRequest:
        settings = self.settings
        return TaskRequest(
            tool=settings.tool,
            arguments=item.arguments,
            mode=settings.mode,
            options=settings.options,
            tool_mask=settings.tool_mask,
        )


def without_secrets(row: JsonObject, item: Mapped, call: JsonObject) -> JsonObject | None:
    """Return `row` with masks in the place of fields with a value that the admitted `call` has encrypted.

    None if such a value is not found among the arguments of the item.
    """
    secrets: list[str] = []
    for place in places_of_masks(masked(call)):
        found = value_at(item.arguments, ".".join(map(str, place)))
        if found is MISSING:
            return None
        secrets.append(found if isinstance(found, str) else orjson.dumps(found).decode())
    if not secrets:
        return row

    def hides(value: JsonValue) -> bool:
        text = value if isinstance(value, str) else text_of(value).decode()
        return any(secret in text for secret in secrets if secret)

    return {name: MASK if hides(value) else value for name, value in row.items()}


def _line(
    item: Mapped,
    number: int,
    admitted: AdmittedCall,
    first: AdmittedCall,
    equal: EqualCalls | None,
    row: JsonObject | None,
) -> bytes:
    """The stored form of an item: the differences of its call from the first one."""
    call = admitted.call
    own: JsonObject = {"arguments": call.arguments}
    if call.permission != first.call.permission:
        own["permission"] = call.permission.model_dump(mode="json") if call.permission is not None else None
    if call.changes != first.call.changes:
        own["changes"] = list(call.changes)
    summary: JsonObject = {"fingerprint": admitted.summary.fingerprint}
    if admitted.summary.actor != first.summary.actor:
        summary["actor"] = admitted.summary.actor
    line = ItemLine(key=item.key or str(number), call=own, summary=summary, equal=equal, row=row)
    return text_of(line.model_dump(mode="json", exclude=None if row is not None else {"row"}))


def _check_size(item: Mapped, content: bytes) -> None:
    if len(content) > MAX_ITEM_BYTES:
        advice = "Put the large part into a key-value store or a dataset, and pass its id."
        raise RowRefused(f"Its arguments have {len(content)} bytes; an item may have {MAX_ITEM_BYTES}. {advice}")
    if has_more_values(item.arguments):
        raise RowRefused(f"Its arguments have more than {MAX_VALUES} values.")


def _no_argument(place: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Its arguments: {', '.join(known[:_MOST_NAMES]) or 'none'}."
    return f"{place} {name[:MAX_KEY_CHARS]!r}, which is not an argument of the tool. {advice}"


def _problem(number: int, message: str, path: str = "") -> Violation:
    where = f"{path}: " if path else ""
    return Violation(path=f"/{number}{path}", message=f"Line {number}: {where}{message}")


def _refused(tool: str, problems: list[Violation]) -> BatchRefused:
    shown = tuple(problems[:MAX_REPORTED])
    unread = " The rest was not checked." if len(problems) >= MAX_REPORTED else ""
    more = f" And {len(shown) - 1} more.{unread}" if shown[1:] else ""
    message, hint = f"Nothing was started: {shown[0].message}{more}", "Correct these lines and send the batch again."
    return BatchRefused(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, message, hint=hint, violations=shown))


class RowRefused(ValueError):
    """An invalid row. The message is a sentence."""


@dataclass(frozen=True)
class RowMapping:
    """The mapping of a row to an item."""

    common: JsonObject
    fields: Mapping[str, str]
    key: str | None

    def item(self, row: JsonValue) -> Mapped:
        """The item of `row`. Raises `RowRefused`."""
        if not isinstance(row, dict):
            raise RowRefused("It is not a JSON object.")
        key = self._key_of(row)
        if self.fields:
            return Mapped(key, merged(self.common, self._mapped(row)))
        own = row.get("arguments")
        if isinstance(own, dict) and is_item(row):
            return Mapped(key if key is not None else _as_key(row.get("key"), "key"), merged(self.common, own))
        return Mapped(key, merged(self.common, row))

    def _key_of(self, row: JsonObject) -> str | None:
        if self.key is None:
            return None
        found = value_at(row, self.key)
        if found is MISSING or found is None or found == "":
            raise RowRefused(f"It has no `{self.key}`, which must be the item's key.")
        return _as_key(cast(JsonValue, found), self.key)

    def _mapped(self, row: JsonObject) -> JsonObject:
        arguments: JsonObject = {}
        for target, source in self.fields.items():
            value = value_at(row, source)
            if value is MISSING:
                raise RowRefused(f"It has no `{source}`, from which `{target}` takes its value.")
            _place(arguments, target.split("."), cast(JsonValue, value))
        return arguments


def is_item(row: JsonValue) -> bool:
    """Return whether a row is an item with arguments, and not the arguments themselves. Only without a mapping."""
    return isinstance(row, dict) and isinstance(row.get("arguments"), dict) and row.keys() <= _ITEM_FIELDS


def merged(common: JsonObject, own: JsonObject) -> JsonObject:
    """`own` over `common`, objects field by field."""
    both = dict(common)
    for name, value in own.items():
        before = both.get(name)
        both[name] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return both


def typed(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Arguments from CSV, with texts converted to numbers and booleans by the schema. An empty cell is an absent value.

    A text that cannot be converted stays, and the schema's check refuses it.
    """
    given = schema.get("properties")
    properties = given if isinstance(given, dict) else {}
    return {name: _typed(value, properties.get(name)) for name, value in arguments.items() if value is not None}


def _typed(value: JsonValue, schema: JsonValue) -> JsonValue:
    known = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        return typed(value, known)
    if isinstance(value, list):
        return [_typed(entry, known.get("items")) for entry in value if entry is not None]
    return _as_type(value, _types_of(known)) if isinstance(value, str) else value


def _as_type(text: str, types: Sequence[str]) -> JsonValue:
    if "string" in types or not types:
        return text
    word = text.strip()
    if number_flaws(word.encode()):
        return text  # which the schema's check refuses
    if "integer" in types and _INTEGER.fullmatch(word):
        return int(word)
    if "number" in types and _NUMBER.fullmatch(word):
        return float(word)
    truth = {"true": True, "false": False}.get(word.lower())
    return truth if "boolean" in types and truth is not None else text


def _types_of(schema: JsonObject) -> list[str]:
    """The types that a value may have, including those of alternatives."""
    kind = schema.get("type")
    found = [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]
    for name in ("anyOf", "oneOf"):
        alternatives = schema.get(name)
        for one in alternatives if isinstance(alternatives, list) else []:
            found += _types_of(one) if isinstance(one, dict) else []
    return found


def unknown_columns(names: Iterable[str], key: str | None, mapping: Mapping[str, str], schema: JsonObject) -> list[str]:
    """Columns of CSV, or targets of a mapping, that are not arguments by the schema. Empty if it allows any names."""
    if mapping:
        return [target for target in mapping if not _has(schema, target.split("."))]
    return [name for name in names if name != key and not _has(schema, [name])]


def _has(schema: JsonValue, path: Sequence[str]) -> bool:
    """Return whether values at `path` may be part of the schema."""
    if not isinstance(schema, dict) or not path:
        return True
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("patternProperties") or schema.get("additionalProperties"):
        return True
    return path[0] in properties and _has(properties[path[0]], path[1:])


def _as_key(value: JsonValue, field: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowRefused(f"Its `{field}` is neither a string nor an integer, so it cannot be a key.")
    key = str(value)
    if not 0 < len(key) <= MAX_KEY_CHARS:
        raise RowRefused(f"Its `{field}` is empty or longer than {MAX_KEY_CHARS} characters, so it cannot be a key.")
    return key


def value_at(row: JsonValue, path: str) -> object:
    """Return the value at a dot path, or at the field of this name; `MISSING` without one."""
    if isinstance(row, dict) and path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = cast(Any, value)[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 7 and int(part) < len(cast(Any, value)):
            value = cast(Any, value)[int(part)]
        else:
            return MISSING
    return value


def _place(into: Any, path: Sequence[str], value: JsonValue) -> None:
    """Write the value at a path, and create the objects and lists on it."""
    here, *rest = path
    if isinstance(into, list):
        _place_in_list(cast(list[Any], into), here, rest, value)
        return
    if not rest:
        into[here] = value
        return
    below = into.setdefault(here, [] if rest[0].isdecimal() else {})
    if not isinstance(below, dict | list):
        raise RowRefused(f"The mapping writes into `{here}`, which already has a value.")
    _place(below, rest, value)


def _place_in_list(into: list[Any], here: str, rest: Sequence[str], value: JsonValue) -> None:
    if not here.isdecimal() or len(here) > 3 or int(here) > min(len(into), _LONGEST_LIST):
        raise RowRefused(f"The mapping's `{here}` is not an index of the list: write 0, 1, 2, in this order.")
    at = int(here)
    if at == len(into):
        into.append({} if not rest or not rest[0].isdecimal() else [])
    if rest:
        _place(into[at], rest, value)
    else:
        into[at] = value
