"""`Intake`: reads the items of a batch and admits each as a single call would be, before anything is started."""

import difflib
import hashlib
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from pydantic import ValidationError

from outlast.activities.batches.contracts import MAX_ITEM_BYTES, MAX_KEY_CHARS, EqualCalls, ItemLine, Lines
from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.json_values import MAX_VALUES, has_more_values, text_of
from outlast.api.batches.row_mapping import Mapped, RowMapping, RowRefused, is_item, typed, unknown_columns
from outlast.api.batches.sources import SourceRow, too_many_items
from outlast.api.errors import BatchRefused, InvalidCall, MaskedToolCalled, UnknownToolCalled
from outlast.api.tasks.admission import Admission, AdmittedCall
from outlast.contracts.batches import BatchSettings
from outlast.contracts.tasks import TaskRequest

_MOST_NAMES = 10
MAX_REPORTED = 20
"""Items that are reported when some are refused. No more are looked at then."""


class LineSink(Protocol):
    """Takes the lines of admitted items."""

    async def add(self, line: bytes) -> None:
        """Take one line, without its end."""
        ...

    async def finish(self) -> Lines:
        """Keep them."""
        ...


@dataclass
class _Read:
    """What was read so far."""

    keys: dict[bytes, int] = field(default_factory=dict[bytes, int])
    digest: Any = field(default_factory=hashlib.sha256)
    count: int = 0
    problems: list[Violation] = field(default_factory=list[Violation])


@dataclass(frozen=True)
class Admitted:
    """Items that may run."""

    items: Lines
    first: AdmittedCall
    digest: str
    """Of the items as they were sent, to tell a repeated request from another one."""


class Intake:
    """Reads one batch for its caller."""

    def __init__(self, admission: Admission, caller: Caller, settings: BatchSettings, *, max_items: int) -> None:
        """Admit items as `settings` say, `max_items` at most."""
        self._admission = admission
        self._caller = caller
        self._settings = settings
        self._max_items = max_items
        self._mapping = RowMapping(settings.arguments, settings.mapping, settings.key)

    async def admitted(self, rows: AsyncIterable[SourceRow], writer: LineSink, *, are_texts: bool) -> Admitted:
        """Admit all items and write them. With `are_texts`, values are texts that the tool may want as numbers.

        Raises `BatchRefused` with the lines of items that are no calls, `BatchTooLarge`, what `Admission.admit` raises
        of a call that no arguments would mend, and what the rows and the writer raise.
        """
        read, first = _Read(), None
        schema: JsonObject | None = None
        async for row in rows:
            item = self._item(row, read)
            if item is not None and schema is None and (self._settings.mapping or not is_item(row.value)):
                schema = await self._schema(item)
                self._check_columns(row, schema, are_texts=are_texts)
            if item is not None and are_texts and schema is not None:
                arguments = typed(item.arguments, schema)
                if self._names_items_only(schema):
                    arguments.pop(self._settings.key or "", None)
                item = Mapped(item.key, arguments)
            call = await self._admit(row.number, item, read) if item is not None else None
            if call is not None and item is not None:
                first = first or call
                await writer.add(_line(item, row.number, call, first, self._equal_calls(call)))
            if len(read.problems) >= MAX_REPORTED:
                break
        if read.problems:
            raise _refused(self._settings.tool, read.problems)
        if first is None:
            raise _refused(self._settings.tool, [Violation(path="", message="There are no items.")])
        return Admitted(await writer.finish(), first, read.digest.hexdigest())

    def _equal_calls(self, admitted: AdmittedCall) -> EqualCalls | None:
        """The calls that may answer the item, where the batch asks for it. The operator's rules do not."""
        if self._settings.options.reuse is None or admitted.reuse is None:
            return None
        age = admitted.reuse.max_age
        return EqualCalls(digest=admitted.reuse.digest, max_age_seconds=age.total_seconds() if age else None)

    async def digest(self, rows: AsyncIterable[SourceRow]) -> str:
        """The digest of the items, without admitting them."""
        read = _Read()
        async for row in rows:
            self._item(row, read)
        return read.digest.hexdigest()

    def _item(self, row: SourceRow, read: _Read) -> Mapped | None:
        """The item of a row; None for one that is none, which is noted. Raises `BatchTooLarge`."""
        read.count += 1
        if read.count > self._max_items:
            raise too_many_items(self._max_items)
        try:
            if row.problem is not None:
                raise RowRefused(row.problem)
            item = self._mapping.item(row.value)
            content = orjson.dumps(item.arguments, option=orjson.OPT_SORT_KEYS)
            _check_size(item, content)
            self._note_key(item.key or str(row.number), row.number, read)
        except RowRefused as error:
            read.problems.append(_problem(row.number, str(error)))
            return None
        except TypeError as error:
            read.problems.append(_problem(row.number, f"It cannot be written as JSON: {error}."))
            return None
        read.digest.update(orjson.dumps(item.key) + b"\0" + content + b"\n")
        return item

    def _note_key(self, key: str, number: int, read: _Read) -> None:
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:16]
        before = read.keys.setdefault(digest, number)
        if before != number:
            raise RowRefused(f"Its key {key!r} is that of line {before}, too: each item needs its own.")

    def _names_items_only(self, schema: JsonObject) -> bool:
        """Whether the column of the items' keys is no argument, too."""
        key = self._settings.key
        return not self._settings.mapping and key is not None and bool(unknown_columns([key], None, {}, schema))

    def _check_columns(self, row: SourceRow, schema: JsonObject, *, are_texts: bool) -> None:
        """Raise `BatchRefused` for columns that are no arguments: the tool would run without their values.

        Rows of JSON may have further fields, but not only such.
        """
        settings = self._settings
        names = list(row.value) if isinstance(row.value, dict) else []
        unknown = unknown_columns(names, settings.key, settings.mapping, schema)
        is_strict = are_texts or settings.mapping
        if not unknown or not (is_strict or len(unknown) == len([name for name in names if name != settings.key])):
            return
        properties = schema.get("properties")
        known = list(properties) if isinstance(properties, dict) else []
        what = "mapping" if settings.mapping else "field"
        problems = [Violation(path="", message=_no_argument(what, name, known)) for name in unknown[:MAX_REPORTED]]
        raise _refused(settings.tool, problems)

    async def _schema(self, item: Mapped) -> JsonObject:
        return await self._admission.schema_of(self._caller, self._request(item))

    async def _admit(self, number: int, item: Mapped, read: _Read) -> AdmittedCall | None:
        try:
            return await self._admission.admit(self._caller, self._request(item))
        except (UnknownToolCalled, MaskedToolCalled):
            raise
        except InvalidCall as error:
            found = error.envelope.violations or (Violation(path="", message=error.envelope.message),)
            read.problems += [_problem(number, one.message, one.path) for one in found[:MAX_REPORTED]]
        except ValidationError as error:
            read.problems.append(_problem(number, error.errors(include_input=False)[0]["msg"]))
        return None

    def _request(self, item: Mapped) -> TaskRequest:
        settings = self._settings
        return TaskRequest(
            tool=settings.tool,
            arguments=item.arguments,
            mode=settings.mode,
            options=settings.options,
            tool_mask=settings.tool_mask,
        )


def _line(item: Mapped, number: int, admitted: AdmittedCall, first: AdmittedCall, equal: EqualCalls | None) -> bytes:
    """The item as it is kept: where its call differs from the first one's."""
    call = admitted.call
    own: JsonObject = {"arguments": call.arguments}
    if call.permission != first.call.permission:
        own["permission"] = call.permission.model_dump(mode="json") if call.permission is not None else None
    if call.changes != first.call.changes:
        own["changes"] = list(call.changes)
    summary: JsonObject = {"fingerprint": admitted.summary.fingerprint}
    if admitted.summary.actor != first.summary.actor:
        summary["actor"] = admitted.summary.actor
    line = ItemLine(key=item.key or str(number), call=own, summary=summary, equal=equal)
    return text_of(line.model_dump(mode="json"))


def _check_size(item: Mapped, content: bytes) -> None:
    if len(content) > MAX_ITEM_BYTES:
        raise RowRefused(
            f"Its arguments have {len(content)} bytes; an item may have {MAX_ITEM_BYTES}. Put the large part into a "
            "key-value store or a dataset, and pass its id."
        )
    if has_more_values(item.arguments):
        raise RowRefused(f"Its arguments have more than {MAX_VALUES} values.")


def _no_argument(what: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    said = f"Did you mean {near[0]!r}?" if near else f"Its arguments: {', '.join(known[:_MOST_NAMES]) or 'none'}."
    told = "The mapping writes into" if what == "mapping" else "The rows have a field"
    return f"{told} {name[:MAX_KEY_CHARS]!r}, which is no argument of the tool. {said}"


def _problem(number: int, message: str, path: str = "") -> Violation:
    where = f"{path}: " if path else ""
    return Violation(path=f"/{number}{path}", message=f"Line {number}: {where}{message}")


def _refused(tool: str, problems: list[Violation]) -> BatchRefused:
    shown = problems[:MAX_REPORTED]
    more = " No more were looked at." if len(problems) >= MAX_REPORTED else ""
    return BatchRefused(
        ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            tool,
            f"Nothing was started: {shown[0].message}" + (f" And {len(shown) - 1} more.{more}" if shown[1:] else ""),
            hint="Correct these lines and send the batch again.",
            violations=tuple(shown),
        )
    )
