"""`DueCalls`: the calls and batches of schedules, with encrypted secrets, which are decrypted at the due time."""

from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from outlast.activities.batches.contracts import ItemLine, Lines
from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.schedules.contracts import Due
from outlast.activities.secrets import SecretSealer, open_values
from outlast.api.access.policy.source import PolicySource
from outlast.api.batches.admission import Intake
from outlast.api.batches.client import StoredRows
from outlast.api.batches.sources import inline_rows, too_many_items
from outlast.api.saved_calls import SavedCallClient, check_size, task_request
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.sealing import with_masked_values
from outlast.contracts.batches import BatchRequest, BatchSettings
from outlast.contracts.schedules import ScheduleChanges, ScheduleRequest
from outlast.contracts.tasks import TaskRequest

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
