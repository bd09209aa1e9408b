"""Stored calls: `SavedCallClient` keeps calls by name, `DueCalls` the calls and batches of schedules.

Saved calls are in the output store, longer than any history. Secrets are encrypted until the call is used.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar, cast

import orjson
from pydantic import BaseModel, Field, JsonValue, ValidationError

from outlast.activities.batches.contracts import ItemLine, Lines
from outlast.activities.contracts import Caller, Contract, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.exceptions import ObjectUnavailable, OutputDamaged, SealError, StoreUnavailable
from outlast.activities.json_values import has_more_values
from outlast.activities.object_store import OutputObjects, StoredObject
from outlast.activities.outputs.output_format import scope_of
from outlast.activities.schedules.contracts import Due
from outlast.activities.secrets import MASK, SecretSealer, masked, open_values, places_of_masks
from outlast.api.access.limits.quotas import CountedPlaces
from outlast.api.access.permissions import forbidden
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.batches.admission import Intake, merged
from outlast.api.batches.client import StoredRows
from outlast.api.batches.sources import inline_rows, too_many_items
from outlast.api.errors import CallTooLarge, InvalidCall, OutputStoreUnavailable, SavedCallNotFound
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.recorded_arguments import with_masked_values
from outlast.contracts.batches import BatchRequest, BatchSettings
from outlast.contracts.schedules import (
    SaveCallRequest,
    SavedCall,
    SavedCallList,
    ScheduleChanges,
    ScheduledCall,
    ScheduleRequest,
)
from outlast.contracts.tasks import TaskRequest
from outlast.fingerprints import as_folder
from outlast.workflows.tools.framework.phases import violations_of

_READS_AT_ONCE = 16
_DAMAGED = "damaged-"
_NAME_OF_DAMAGED = re.compile(r"damaged-[0-9a-f]{32}")
_NAME_FIELD = re.compile(rb'"name":\s*("(?:[^"\\]|\\.)*")')
MAX_BYTES = 128 * 1024
"""Size limit of a stored call or batch."""
_RETRY_SECONDS = 30
_OTHER_FORM = "This version does not support its form."
Kept = TypeVar("Kept", bound=BaseModel)


class KeptCall(Contract):
    """A saved call as it is stored: its secrets are encrypted for its caller."""

    name: str
    note: str | None = None
    call: JsonObject = Field(description="As `ScheduledCall`.")
    saved_at: datetime


class DamagedCall(NamedTuple):
    """A saved call that cannot be read."""

    name: str
    """The name that it was saved under, if readable; else `damaged-DIGEST`, which is accepted, too."""
    reason: str
    saved_at: datetime


class SavedCallStore:
    """Storage of the saved calls of all callers. Every method raises `OutputStoreUnavailable`."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        self._objects = objects
        self._root = f"saved-calls/{as_folder(namespace)}"

    async def keep(self, caller_id: str, kept: KeptCall) -> None:
        """Write a saved call in place of an earlier one of that name."""
        with _store_errors():
            await self._objects.put(self.key(caller_id, kept.name), kept.model_dump_json().encode())

    async def read(self, caller_id: str, name: str) -> KeptCall | DamagedCall | None:
        """Return a caller's saved call; None if absent."""
        with _store_errors():
            found = await self._read(self.key(caller_id, name), datetime.now(UTC))
            return found or await self._damaged(caller_id, name)

    async def all(self, caller_id: str) -> list[KeptCall | DamagedCall]:
        """Return a caller's saved calls, by name."""
        entries = await self._entries(caller_id)
        found: list[KeptCall | DamagedCall] = []
        with _store_errors():
            for start in range(0, len(entries), _READS_AT_ONCE):
                some = entries[start : start + _READS_AT_ONCE]
                read = await asyncio.gather(*(self._read(entry.key, entry.modified_at) for entry in some))
                found += [kept for kept in read if kept is not None]
        return sorted(found, key=lambda kept: kept.name)

    async def keys(self, caller_id: str) -> set[str]:
        """Return the storage keys of a caller's saved calls."""
        return {entry.key for entry in await self._entries(caller_id)}

    async def delete(self, caller_id: str, name: str) -> None:
        """Delete a saved call, if it exists."""
        with _store_errors():
            damaged = await self._damaged(caller_id, name)
            keys = [self.key(caller_id, name), *([self._key_of(caller_id, _alias(name))] if damaged else [])]
            await self._objects.delete(keys)

    async def _damaged(self, caller_id: str, name: str) -> DamagedCall | None:
        """Return the damaged call with the substitute name `name`."""
        digest = _alias(name)
        found = await self._read(self._key_of(caller_id, digest), datetime.now(UTC)) if digest else None
        return found if isinstance(found, DamagedCall) else None

    async def _entries(self, caller_id: str) -> list[StoredObject]:
        with _store_errors():
            return [entry async for entry in self._objects.list(f"{self._root}/{scope_of(caller_id)}")]

    async def _read(self, key: str, modified_at: datetime) -> KeptCall | DamagedCall | None:
        digest = key.rpartition("/")[2].removesuffix(".json")
        try:
            content = await self._objects.get(key)
        except ObjectUnavailable as error:
            return DamagedCall(f"{_DAMAGED}{digest}", str(error), modified_at)
        except OutputDamaged as error:
            return DamagedCall(f"{_DAMAGED}{digest}", error.problem, modified_at)
        if content is None:
            return None
        try:
            kept = KeptCall.model_validate_json(content)
            if _digest(kept.name) == digest:
                return kept
            # Its file was copied or renamed: it is not the call that was saved under this name.
            return DamagedCall(f"{_DAMAGED}{digest}", f"It holds the saved call {kept.name!r} instead.", modified_at)
        except ValidationError:
            name = _name_in(content, digest) or f"{_DAMAGED}{digest}"
            return DamagedCall(name, "The stored data is truncated or was changed.", modified_at)

    def key(self, caller_id: str, name: str) -> str:
        """Return the storage key of a saved call."""
        return self._key_of(caller_id, _digest(name))

    def _key_of(self, caller_id: str, digest: str) -> str:
        return f"{self._root}/{scope_of(caller_id)}/{digest}.json"


class SavedCallClient:
    """The saved calls of callers, each of whom can access only its own. Methods raise `ApiError`."""

    def __init__(
        self, store: SavedCallStore, admission: Admission, sealer: SecretSealer, policy: PolicySource, audit: AuditLog
    ) -> None:
        self._store = store
        self._admission = admission
        self._sealer = sealer
        self._policy = policy
        self._audit = audit
        self._places = CountedPlaces("saved_calls", retry_after_seconds=_RETRY_SECONDS)

    async def save(self, caller: Caller, name: str, request: SaveCallRequest) -> SavedCall:
        """Check a call as if it were started now, and store it in place of an earlier one of that name.

        A mask stands for the secret in the earlier one, unless that is damaged. Raises the errors of `Admission.admit`,
        `CallTooLarge`, and `TooManyRequests` at the limit.
        """
        async with self._audit.action(AuditEvent.CALL_SAVED, caller, tool=request.tool, saved_call=name):
            before = await self._store.read(caller.id, name)
            if before is not None:
                own = before.call.get("arguments") if isinstance(before, KeptCall) else None
                _refuse_lost_secrets(before, request)
                arguments = with_masked_values(request.arguments, own, self._sealer, caller, request.tool)
                request = request.model_copy(update={"arguments": arguments})
            async with self._place(caller, name) if before is None else nullcontext():
                call = await self.sealed(caller, ScheduledCall.model_validate(request.model_dump(exclude={"note"})))
                kept = KeptCall(name=name, note=request.note, call=call, saved_at=datetime.now(UTC))
                await self._store.keep(caller.id, kept)
        return _view(kept)

    async def get(self, caller: Caller, name: str) -> SavedCall:
        """Return a saved call of the caller, even if damaged. Raises `SavedCallNotFound`."""
        return _view(await self._found(caller, name))

    async def list(self, caller: Caller) -> SavedCallList:
        """Return the caller's saved calls, by name."""
        return SavedCallList(saved_calls=tuple(_view(kept) for kept in await self._store.all(caller.id)))

    async def delete(self, caller: Caller, name: str) -> None:
        """Delete a saved call. Its schedules fail from then on. Raises `SavedCallNotFound`."""
        async with self._audit.action(AuditEvent.SAVED_CALL_DELETED, caller, saved_call=name):
            await self._found(caller, name)
            await self._store.delete(caller.id, name)

    async def opened(self, caller: Caller, name: str, arguments: JsonObject) -> ScheduledCall:
        """Return a saved call with secrets, and `arguments` over its own. Raises `SavedCallNotFound`, `SealError`."""
        kept = await self._found(caller, name)
        if isinstance(kept, DamagedCall):
            message = f"The saved call {kept.name!r} is damaged: {kept.reason} Save it again, or delete it."
            raise InvalidCall(ErrorEnvelope.permanent(ErrorCategory.FILESYSTEM, kept.name, message))
        call = read_kept(ScheduledCall, open_values(kept.call, self._sealer, purpose=caller.id), name)
        return call.model_copy(update={"arguments": merged(call.arguments, arguments)})

    async def request(self, caller: Caller, name: str, arguments: JsonObject) -> TaskRequest:
        """Return the task request of a saved call, with `arguments` over its own. Raises `SavedCallNotFound`, and
        `InvalidCall` when its secrets cannot be decrypted.
        """
        try:
            return task_request(await self.opened(caller, name, arguments))
        except SealError as error:
            message = f"The secrets of the saved call {name!r} cannot be opened: {error} Save it again."
            raise InvalidCall(ErrorEnvelope.permanent(ErrorCategory.AUTHENTICATION, name, message)) from error

    async def sealed(self, caller: Caller, call: ScheduledCall) -> JsonObject:
        """Return a call in its storage form. Raises the errors of `Admission.admit`, and `CallTooLarge`."""
        check_size(call.arguments, call.tool)
        admitted = await self._admission.admit(caller, task_request(call))
        ruling = admitted.call.permission
        if ruling is not None and ruling.action == "deny":
            raise InvalidCall(forbidden(admitted.call.tool, caller.id, ruling.rule))
        kept = call.model_dump(mode="json", exclude_unset=True, exclude={"arguments"})
        return {**kept, "arguments": admitted.call.arguments}

    async def _found(self, caller: Caller, name: str) -> KeptCall | DamagedCall:
        found = await self._store.read(caller.id, name)
        if found is None:
            raise SavedCallNotFound(f"You have no saved call {name!r}. `GET /v1/saved-calls` lists those you have.")
        return found

    def _place(self, caller: Caller, name: str) -> AbstractAsyncContextManager[None]:
        """Reserve a place for one more saved call. Raises `TooManyRequests`."""

        async def exists(key: str) -> bool:
            return key in await self._store.keys(caller.id)

        most = self._policy.of(caller.id).limits.saved_calls
        return self._places.place(
            caller.id,
            self._store.key(caller.id, name),
            most,
            listed=lambda: self._store.keys(caller.id),
            exists=exists,
            refusal=f"You have {most} saved calls, the maximum (`saved_calls` in the operator's policy). Delete one.",
        )


def read_kept(model: type[Kept], document: JsonValue, tool: str) -> Kept:
    """Parse a stored call or batch. Raises `InvalidCall` if a later rule for requests excludes it."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise InvalidCall(
            ErrorEnvelope.permanent(
                ErrorCategory.VALIDATION,
                tool,
                f"The call saved as {tool} is damaged, or no longer valid. Nothing was started.",
                hint="Correct every violation listed, and save it again.",
                violations=violations_of(error),
            )
        ) from error


def task_request(call: ScheduledCall) -> TaskRequest:
    """Return the task request of a call."""
    return TaskRequest(
        tool=call.tool, arguments=call.arguments, mode=call.mode, options=call.options, tool_mask=call.tool_mask
    )


def check_size(document: JsonValue, tool: str) -> None:
    """Raise `CallTooLarge` for a call that is too large to be stored."""
    if len(orjson.dumps(document)) > MAX_BYTES or has_more_values(document):
        raise CallTooLarge(
            f"It is larger than {MAX_BYTES} bytes. Put the large part into a key-value store or a dataset, and pass "
            "its id.",
            tool=tool,
        )


def _refuse_lost_secrets(before: KeptCall | DamagedCall, request: SaveCallRequest) -> None:
    """Raise `InvalidCall` for a mask in place of a lost secret."""
    if isinstance(before, DamagedCall) and places_of_masks(request.arguments):
        message = (
            f"The saved call {before.name!r} is damaged, and so are its secrets: enter them again instead of {MASK!r}."
        )
        raise InvalidCall(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, request.tool, message))


def _view(kept: KeptCall | DamagedCall) -> SavedCall:
    if isinstance(kept, DamagedCall):
        lost = f"{kept.reason} Save it again (PUT), or delete it."
        return SavedCall(name=kept.name, tool="", arguments={}, options={}, saved_at=kept.saved_at, damaged=lost)
    shown = masked(kept.call)
    assert isinstance(shown, dict), "an object is masked as one"
    fields = {name: shown[name] for name in ("tool", "arguments", "mode") if shown.get(name) is not None}
    own = {"name": kept.name, "note": kept.note, "options": shown.get("options") or {}, "saved_at": kept.saved_at}
    try:
        return SavedCall.model_validate({**fields, **own})
    except ValidationError:
        return _view(DamagedCall(kept.name, _OTHER_FORM, kept.saved_at))


def _alias(name: str) -> str:
    """Return the digest in the substitute name of a damaged call; empty for another name."""
    return name.removeprefix(_DAMAGED) if _NAME_OF_DAMAGED.fullmatch(name) else ""


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _name_in(content: bytes, digest: str) -> str | None:
    """Return the name in an unreadable object, if the digest confirms it."""
    found = _NAME_FIELD.search(content)
    try:
        name = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return name if isinstance(name, str) and _digest(name) == digest else None


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise OutputStoreUnavailable("The store that keeps saved calls does not answer. Repeat the request.") from error


_OF_ITEMS = {"items", "rows"}


@dataclass(frozen=True)
class Target:
    """The call or batch of a schedule, and the name that is shown for it."""

    due: Due
    tool: str


@dataclass
class _Collected:
    """The admitted items of a batch, with encrypted secrets."""

    items: list[JsonObject] = field(default_factory=list[JsonObject])

    async def add(self, line: bytes) -> None:
        """Add one item."""
        item = ItemLine.model_validate_json(line)
        self.items.append({"key": item.key, "arguments": item.call["arguments"]})

    async def finish(self) -> Lines:
        """Store nothing: the schedule keeps the items."""
        return Lines(digest="0" * 64, count=len(self.items))


@dataclass(eq=False)
class DueCalls:
    """Checks calls and batches for schedules as if they started now, and encrypts their secrets."""

    admission: Admission
    saved_calls: SavedCallClient
    stored_rows: StoredRows
    sealer: SecretSealer
    policy: PolicySource

    async def admitted(
        self, caller: Caller, asked: ScheduleRequest | ScheduleChanges, before: Due | None = None
    ) -> Target:
        """The target of a request. Masks in it stand for the secrets of `before`.

        Raises what `Admission.admit`, `Intake.admitted` and `StoredRows.check` raise, `CallTooLarge` and
        `SavedCallNotFound`.
        """
        if asked.call is not None:
            own = before.call.get("arguments") if before is not None and before.call is not None else None
            arguments = with_masked_values(asked.call.arguments, own, self.sealer, caller, asked.call.tool)
            call = asked.call.model_copy(update={"arguments": arguments})
            return Target(Due(call=await self.saved_calls.sealed(caller, call)), call.tool)
        if asked.batch is not None:
            return await self._batch(caller, asked.batch)
        use = asked.saved
        assert use is not None, "the request was checked for a target"
        check_size(use.arguments, use.name)
        call = await self.saved_calls.opened(caller, use.name, use.arguments)
        await self.saved_calls.sealed(caller, call)  # raises if it is too large now
        own = task_request(call).model_copy(update={"arguments": use.arguments})
        return Target(Due(saved=use.name, arguments=await self.admission.sealed_arguments(caller, own)), use.name)

    def opened(self, caller: Caller, due: Due) -> Due:
        """The call or batch with its decrypted secrets. Raises `SealError`."""
        content = open_values(cast(JsonValue, due.model_dump(mode="json")), self.sealer, purpose=caller.id)
        return Due.model_validate(content)

    async def _batch(self, caller: Caller, request: BatchRequest) -> Target:
        check_size(request.model_dump(mode="json"), request.tool)
        kept = request.model_dump(mode="json", exclude_unset=True, exclude=_OF_ITEMS)
        if request.items is None:
            assert request.rows is not None, "a batch has items or rows"
            common = TaskRequest(tool=request.tool, arguments=request.arguments, mode=request.mode)
            arguments = await self.admission.sealed_arguments(caller, common)
            await self.stored_rows.check(caller, request.rows, request.tool)
            rows = request.rows.model_dump(mode="json", exclude_none=True)
            return Target(Due(batch={**kept, "arguments": arguments, "rows": rows}), request.tool)
        settings = BatchSettings.model_validate(request.model_dump(exclude=_OF_ITEMS))
        limit = self.policy.of(caller.id).limits.batch_items
        if len(request.items) > limit:
            raise too_many_items(limit)
        intake, collected = Intake(self.admission, caller, settings, max_items=limit), _Collected()
        await intake.admitted(inline_rows(request.items), collected, are_texts=False)
        # Items are whole now, without a mapping or common arguments.
        of_rows = {"arguments", "mapping", "key"}
        kept = {name: value for name, value in kept.items() if name not in of_rows}
        return Target(Due(batch={**kept, "items": cast(JsonValue, collected.items)}), request.tool)
