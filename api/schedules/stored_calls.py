"""`DueCalls`: what a schedule starts, in the form in which it may be kept, and opened again when it is due."""

from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from outlast.activities.batches.contracts import ItemLine, Lines
from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.schedules.contracts import Due
from outlast.activities.secrets.encryption import SecretSealer
from outlast.activities.secrets.placeholders import open_values
from outlast.api.access.policy.source import PolicySource
from outlast.api.batches.admission import Intake
from outlast.api.batches.client import StoredRows
from outlast.api.batches.sources import inline_rows, too_many_items
from outlast.api.saved_calls import SavedCallClient, check_size, task_request
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.sealing import with_masked_values
from outlast.contracts.batches import BatchItem, BatchRequest, BatchSettings
from outlast.contracts.schedules import SavedCallUse, ScheduleChanges, ScheduledCall, ScheduleRequest
from outlast.contracts.tasks import TaskRequest

_OF_ITEMS = {"items", "rows"}


@dataclass(frozen=True)
class Target:
    """What a schedule starts, and the name that is shown for it."""

    due: Due
    tool: str


@dataclass
class _Collected:
    """The admitted items of a batch, with their secrets sealed."""

    items: list[JsonObject] = field(default_factory=list[JsonObject])

    async def add(self, line: bytes) -> None:
        """Take one item."""
        item = ItemLine.model_validate_json(line)
        self.items.append({"key": item.key, "arguments": item.call["arguments"]})

    async def finish(self) -> Lines:
        """Nothing is stored: the schedule keeps them."""
        return Lines(digest="0" * 64, count=len(self.items))


class DueCalls:
    """Checks what is to be scheduled as if it were started now, and seals its secrets."""

    def __init__(
        self,
        admission: Admission,
        saved_calls: SavedCallClient,
        stored_rows: StoredRows,
        sealer: SecretSealer,
        policy: PolicySource,
    ) -> None:
        """Admit with `admission`, within the limits of the `policy` in force."""
        self._admission = admission
        self._saved_calls = saved_calls
        self._stored_rows = stored_rows
        self._sealer = sealer
        self._policy = policy

    async def admitted(
        self, caller: Caller, asked: ScheduleRequest | ScheduleChanges, before: Due | None = None
    ) -> Target:
        """The target of a request that has one. Masks in it stand for the secrets of `before`.

        Raises what `Admission.admit`, `Intake.admitted` and `StoredRows.check` raise, `CallTooLarge` and
        `SavedCallNotFound`.
        """
        if asked.call is not None:
            own = before.call.get("arguments") if before is not None and before.call is not None else None
            call = asked.call.model_copy(update={"arguments": self._whole(caller, asked.call, own)})
            return Target(Due(call=await self._saved_calls.sealed(caller, call)), call.tool)
        if asked.batch is not None:
            return await self._batch(caller, asked.batch)
        assert asked.saved is not None, "the request was checked for a target"
        return await self._saved(caller, asked.saved)

    def opened(self, caller: Caller, due: Due) -> Due:
        """What is due with its secrets, to be started at once. Raises `SealError`."""
        content = open_values(cast(JsonValue, due.model_dump(mode="json")), self._sealer, purpose=caller.id)
        return Due.model_validate(content)

    def _whole(self, caller: Caller, call: ScheduledCall, sealed: JsonValue) -> JsonObject:
        return with_masked_values(call.arguments, sealed, self._sealer, caller, call.tool)

    async def _batch(self, caller: Caller, request: BatchRequest) -> Target:
        check_size(request.model_dump(mode="json"), request.tool)
        kept = request.model_dump(mode="json", exclude_unset=True, exclude=_OF_ITEMS)
        if request.items is None:
            assert request.rows is not None, "a batch has items or rows"
            common = TaskRequest(tool=request.tool, arguments=request.arguments, mode=request.mode)
            arguments = await self._admission.sealed_arguments(caller, common)
            await self._stored_rows.check(caller, request.rows, request.tool)
            rows = request.rows.model_dump(mode="json", exclude_none=True)
            return Target(Due(batch={**kept, "arguments": arguments, "rows": rows}), request.tool)
        items = await self._items(caller, request, request.items)
        # Items are whole now: nothing is left to be mapped, and nothing that they have in common.
        of_rows = {"arguments", "mapping", "key"}
        kept = {name: value for name, value in kept.items() if name not in of_rows}
        return Target(Due(batch={**kept, "items": cast(JsonValue, items)}), request.tool)

    async def _items(self, caller: Caller, request: BatchRequest, items: list[BatchItem]) -> list[JsonObject]:
        settings = BatchSettings.model_validate(request.model_dump(exclude=_OF_ITEMS))
        limit = self._policy.of(caller.id).limits.batch_items
        if len(items) > limit:
            raise too_many_items(limit)
        collected = _Collected()
        await Intake(self._admission, caller, settings, max_items=limit).admitted(
            inline_rows(items), collected, are_texts=False
        )
        return collected.items

    async def _saved(self, caller: Caller, use: SavedCallUse) -> Target:
        check_size(use.arguments, use.name)
        call = await self._saved_calls.opened(caller, use.name, use.arguments)
        await self._saved_calls.sealed(caller, call)  # it has to fit as it is now
        own = task_request(call).model_copy(update={"arguments": use.arguments})
        arguments = await self._admission.sealed_arguments(caller, own)
        return Target(Due(saved=use.name, arguments=arguments), use.name)
