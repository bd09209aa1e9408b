"""`ScheduleClient`: schedules over Temporal's. There is no table of schedules: Temporal keeps them."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Literal
from weakref import WeakValueDictionary

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import (
    Client,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Caller
from outlast.activities.schedules.notes import NoteCode, written_note
from outlast.activities.secrets.encryption import SecretSealer
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.limits.quotas import CountedPlaces
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import BadRequest, ScheduleDamaged, ScheduleExists, ScheduleNotFound, ScheduleRefused
from outlast.api.schedules.specification import OVERLAPS, specification
from outlast.api.schedules.stored_calls import DueCalls, Target
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.schedule_view import (
    firings_without_state,
    latest_firings,
    order_of,
    schedule_from,
    unreadable_schedule,
)
from outlast.api.temporal.visibility import read_page_token, schedules_query, write_page_token
from outlast.contracts.schedules import (
    MAX_BACKFILLED,
    BackfillRequest,
    DueTimes,
    Firing,
    Period,
    Schedule,
    ScheduleChanges,
    SchedulePage,
    ScheduleRequest,
    check_timing,
)
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.workflows.contracts import search_attributes
from outlast.workflows.schedules.contracts import FiringInput, Spending, Timing

_MAY_BE_ABSENT = frozenset({"start_at", "end_at", "budget_usd", "note"})
MAX_PAGE = 50
_DESCRIBED_AT_ONCE = 8
_RETRY_SECONDS = 30
_LEAST = timedelta(milliseconds=1)
_OLD_PAGE = "The page token is no longer valid; list again from the first page."


class ScheduleClient:
    """Creates, shows, changes and triggers the schedules of callers, each of whom reaches its own only.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`.
    """

    def __init__(
        self,
        client: Client,
        due: DueCalls,
        sealer: SecretSealer,
        policy: PolicySource,
        audit: AuditLog,
        limits: CallerLimits,
        *,
        ui_url: str | None,
    ) -> None:
        """Schedule what `due` lets through; record what callers do in `audit`. Lists take turns within `limits`.

        `ui_url` is the root of the Temporal UI, for links.
        """
        self._client = client
        self.due = due
        self._sealer = sealer
        self._policy = policy
        self._audit = audit
        self._limits = limits
        self._ui_url = ui_url
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._places = CountedPlaces("schedules", retry_after_seconds=_RETRY_SECONDS)

    async def create(self, caller: Caller, request: ScheduleRequest) -> Schedule:
        """Check what is to be started as if it were now, and schedule it. The same request again changes nothing.

        Raises what `DueCalls.admitted` raises, `ScheduleExists`, `ScheduleRefused` for times that cannot be, and
        `TooManyRequests` when the caller has as many schedules as it may.
        """
        async with self._audit.action(AuditEvent.SCHEDULE_CREATED, caller, schedule=request.id) as action:
            fingerprints = self._sealer.digests(request.model_dump(mode="json"))
            found = await self._existing(caller, request.id)
            if found == "whole":
                action.note(outcome="repeated")
                return await self._repeated(caller, request.id, fingerprints)
            async with self._place(caller, temporal_id_of(caller, request.id)):
                target = await self.due.admitted(caller, request)
                action.note(tool=target.tool)
                order = _order(caller, request, target, fingerprints[0])
                try:
                    if found == "damaged":
                        await self._replace(order, paused=request.paused)
                    else:
                        await self._start(order, paused=request.paused)
                except ScheduleAlreadyRunningError:
                    action.note(outcome="repeated")
                    return await self._repeated(caller, request.id, fingerprints)
        return await self.get(caller, request.id)

    async def get(self, caller: Caller, schedule_id: str) -> Schedule:
        """The schedule as it is now, with its latest firings, also a damaged one. Readable without a worker."""
        description = await self._description(caller, schedule_id)
        try:
            order = await self._order(description, caller, schedule_id)
        except ScheduleDamaged as error:
            return unreadable_schedule(description, schedule_id, str(error))
        with temporal_errors():
            firings, spent_usd = await latest_firings(self._client, description)
        return await self._view(description, order, firings, spent_usd)

    async def list(self, caller: Caller, *, page_size: int = MAX_PAGE, page_token: str | None = None) -> SchedulePage:
        """The caller's schedules; their firings without their state. Raises `BadRequest` for a page token."""
        async with self._limits.awaited_slot(caller.id, "concurrent_lists"):
            query, size = schedules_query(caller.id), min(page_size, MAX_PAGE)
            token = read_page_token(page_token, query) if page_token else None
            with temporal_errors(invalid=BadRequest(_OLD_PAGE)):
                found = await self._client.list_schedules(query, page_size=size, next_page_token=token)
                await found.fetch_next_page(page_size=size)
            slots = asyncio.Semaphore(_DESCRIBED_AT_ONCE)
            shown = await asyncio.gather(*(self._listed(caller, one.id, slots) for one in found.current_page or ()))
            next_token = write_page_token(found.next_page_token, query) if found.next_page_token else None
        schedules = sorted((schedule for schedule in shown if schedule is not None), key=lambda one: one.id)
        return SchedulePage(schedules=tuple(schedules), next_page_token=next_token)

    async def update(self, caller: Caller, schedule_id: str, changes: ScheduleChanges) -> Schedule:
        """Change what the changes name. Firings under way go on as they began. Raises as `create` does."""
        async with self._audit.action(AuditEvent.SCHEDULE_UPDATED, caller, schedule=schedule_id):
            _, before = await self._described(caller, schedule_id)
            order = await changed_order(self.due, caller, before, changes)

            def update(found: ScheduleUpdateInput) -> ScheduleUpdate:
                return ScheduleUpdate(schedule=specification(order, found.description.schedule.state))

            with temporal_errors(missing=_not_found(schedule_id)), _refused_times():
                await self._handle(caller, schedule_id).update(update)
        return await self.get(caller, schedule_id)

    async def renew_times(self, caller: Caller, schedule_id: str) -> None:
        """Give Temporal the due times around the coming changes of the clock. Raises `ScheduleNotFound`."""
        _, order = await self._described(caller, schedule_id)

        def update(found: ScheduleUpdateInput) -> ScheduleUpdate:
            return ScheduleUpdate(schedule=specification(order, found.description.schedule.state))

        with temporal_errors(missing=_not_found(schedule_id)):
            await self._handle(caller, schedule_id).update(update)

    async def delete(self, caller: Caller, schedule_id: str) -> None:
        """Delete it. Firings under way go on. Raises `ScheduleNotFound`."""
        async with self._audit.action(AuditEvent.SCHEDULE_DELETED, caller, schedule=schedule_id):
            with suppress(ScheduleDamaged):
                await self._described(caller, schedule_id)
            with temporal_errors(missing=_not_found(schedule_id)):
                await self._handle(caller, schedule_id).delete()

    async def pause(self, caller: Caller, schedule_id: str, reason: str | None) -> Schedule:
        """Nothing is due until it is resumed; what would have been is not made up for."""
        note = await self._note(NoteCode.PAUSED_BY_CALLER, reason or f"Paused by {caller.id}.")
        async with self._audit.action(AuditEvent.SCHEDULE_PAUSED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.pause(note=note))

    async def resume(self, caller: Caller, schedule_id: str, reason: str | None) -> Schedule:
        """Have it go on after a pause."""
        note = await self._note(NoteCode.RESUMED, reason or f"Resumed by {caller.id}.")
        async with self._audit.action(AuditEvent.SCHEDULE_RESUMED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.unpause(note=note))

    async def trigger(self, caller: Caller, schedule_id: str) -> Schedule:
        """Have it due now, also while it is paused. Its overlap policy holds; twice in a second is once."""
        async with self._audit.action(AuditEvent.SCHEDULE_TRIGGERED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.trigger())

    async def backfill(self, caller: Caller, schedule_id: str, asked: BackfillRequest) -> DueTimes:
        """Do what it would have done in a part of time; gives the moments. Raises `ScheduleRefused` for too many."""
        async with self._audit.action(AuditEvent.SCHEDULE_BACKFILLED, caller, schedule=schedule_id) as action:
            _, order = await self._described(caller, schedule_id)
            if asked.overlap == "allow_all" and order.spending.budget_usd is not None:
                raise ScheduleRefused("With a budget, firings go one after the other: choose another `overlap`.")
            due = await self._times(caller, schedule_id, asked)
            if len(due.times) > MAX_BACKFILLED:
                raise ScheduleRefused(
                    f"The schedule was due {len(due.times)} times in this time; a backfill has {MAX_BACKFILLED} at "
                    "most. Nothing was started: ask for a shorter time."
                )
            action.note(detail=f"{len(due.times)} firings")
            backfill = ScheduleBackfill(start_at=asked.start, end_at=asked.end, overlap=OVERLAPS[asked.overlap])
            await self._patched(caller, schedule_id, lambda handle: handle.backfill(backfill))
        return due

    async def times(self, caller: Caller, schedule_id: str, period: Period) -> DueTimes:
        """When it is due, or was, in a part of time, its beginning and jitter included: a thousand moments at most."""
        await self._described(caller, schedule_id)
        return await self._times(caller, schedule_id, period)

    async def _times(self, caller: Caller, schedule_id: str, period: Period) -> DueTimes:
        request = ListScheduleMatchingTimesRequest(
            namespace=self._client.namespace,
            schedule_id=temporal_id_of(caller, schedule_id),
            start_time=_timestamp(period.start - _LEAST),  # Temporal leaves its beginning out, here but in no backfill
            end_time=_timestamp(period.end),
        )
        refused = ScheduleRefused("The schedule is due too often in this time. Ask for a shorter one.")
        with temporal_errors(missing=_not_found(schedule_id), invalid=refused):
            found = await self._client.workflow_service.list_schedule_matching_times(request)
        return DueTimes(times=tuple(time.ToDatetime(UTC) for time in found.start_time))

    async def _patched(
        self, caller: Caller, schedule_id: str, patch: Callable[[ScheduleHandle], Awaitable[None]]
    ) -> Schedule:
        """Change a schedule's state, and see it changed: of two changes at once Temporal may keep one only."""
        await self._described(caller, schedule_id)
        with temporal_errors(missing=_not_found(schedule_id)):
            await patch(self._handle(caller, schedule_id))
        return await self.get(caller, schedule_id)

    async def _replace(self, order: FiringInput, *, paused: bool) -> None:
        """Make a damaged schedule the one of `order`."""
        state = ScheduleState(paused=paused, note=NoteCode.PAUSED_WHEN_MADE if paused else None)

        def update(_found: ScheduleUpdateInput) -> ScheduleUpdate:
            return ScheduleUpdate(schedule=specification(order, state))

        with temporal_errors(missing=_not_found(order.schedule_id)), _refused_times():
            await self._client.get_schedule_handle(order.temporal_id).update(update)

    async def _start(self, order: FiringInput, *, paused: bool) -> None:
        state = ScheduleState(paused=paused, note=NoteCode.PAUSED_WHEN_MADE if paused else None)
        with temporal_errors(), _refused_times():
            await self._client.create_schedule(
                order.temporal_id,
                specification(order, state),
                search_attributes=search_attributes.of_schedule(order.caller.id, order.schedule_id),
            )

    def _place(self, caller: Caller, temporal_id: str) -> AbstractAsyncContextManager[None]:
        """Room for one more of the caller's schedules. Raises `TooManyRequests`."""

        async def listed() -> set[str]:
            with temporal_errors():
                return {one.id async for one in await self._client.list_schedules(schedules_query(caller.id))}

        async def exists(temporal_id: str) -> bool:
            try:
                with temporal_errors(missing=_not_found(temporal_id)):
                    await self._client.get_schedule_handle(temporal_id).describe()
            except ScheduleNotFound:
                return False
            return True

        most = self._policy.of(caller.id).limits.schedules
        refusal = f"You have {most} schedules, which is the most that may be (`schedules` in the operator's policy). "
        return self._places.place(
            caller.id, temporal_id, most, listed=listed, exists=exists, refusal=f"{refusal}Delete one first."
        )

    async def _existing(self, caller: Caller, schedule_id: str) -> Literal["absent", "whole", "damaged"]:
        try:
            await self._described(caller, schedule_id)
        except ScheduleNotFound:
            return "absent"
        except ScheduleDamaged:
            return "damaged"
        return "whole"

    async def _repeated(self, caller: Caller, schedule_id: str, fingerprints: tuple[str, ...]) -> Schedule:
        _, order = await self._described(caller, schedule_id)
        if order.fingerprint not in fingerprints:
            raise ScheduleExists(
                f"You have another schedule {schedule_id!r}. Change it (PATCH /v1/schedules/{schedule_id}), or choose "
                "another id."
            )
        return await self.get(caller, schedule_id)

    async def _listed(self, caller: Caller, temporal_id: str, slots: asyncio.Semaphore) -> Schedule | None:
        """One schedule for a list; None when it was deleted meanwhile."""
        async with slots:
            try:
                with temporal_errors(missing=_not_found(temporal_id)):
                    description = await self._client.get_schedule_handle(temporal_id).describe()
            except ScheduleNotFound:
                return None
            try:
                order = await order_of(description)
            except UNREADABLE as error:
                attributes = description.typed_search_attributes
                name = attributes.get(search_attributes.SCHEDULE) or temporal_id
                is_own = temporal_id_of(caller, name) == temporal_id
                return unreadable_schedule(description, name, unreadable_words(error)) if is_own else None
            if order is None or order.caller.id != caller.id:
                return None
            return await self._view(description, order, firings_without_state(description), None)

    async def _described(self, caller: Caller, schedule_id: str) -> tuple[ScheduleDescription, FiringInput]:
        description = await self._description(caller, schedule_id)
        return description, await self._order(description, caller, schedule_id)

    async def _description(self, caller: Caller, schedule_id: str) -> ScheduleDescription:
        """Temporal's own description; its id is a digest with the caller in it. Raises `ScheduleNotFound`."""
        # Temporal describes a schedule by a query of its workflow, and refuses many queries of one at a time.
        slots = self._slots.setdefault(temporal_id_of(caller, schedule_id), asyncio.Semaphore(_DESCRIBED_AT_ONCE))
        async with slots:
            with temporal_errors(missing=_not_found(schedule_id)):
                return await self._handle(caller, schedule_id).describe()

    async def _order(self, description: ScheduleDescription, caller: Caller, schedule_id: str) -> FiringInput:
        """What the schedule starts. Raises `ScheduleNotFound` for one of somebody else, and `ScheduleDamaged`."""
        try:
            order = await order_of(description)
        except UNREADABLE as error:
            raise ScheduleDamaged(
                f"What the schedule {schedule_id!r} starts cannot be read: {unreadable_words(error)}"
            ) from error
        if order is None or order.caller.id != caller.id:
            raise _not_found(schedule_id)
        return order

    async def _view(
        self, description: ScheduleDescription, order: FiringInput, firings: Sequence[Firing], spent_usd: float | None
    ) -> Schedule:
        return await schedule_from(
            description,
            order,
            firings,
            spent_usd=spent_usd,
            ui_url=self._ui_url,
            namespace=self._client.namespace,
        )

    async def _note(self, code: NoteCode, words: str) -> str:
        return await written_note(code, words, self._client.data_converter)

    def _handle(self, caller: Caller, schedule_id: str) -> ScheduleHandle:
        return self._client.get_schedule_handle(temporal_id_of(caller, schedule_id))


def _order(caller: Caller, request: ScheduleRequest, target: Target, fingerprint: str) -> FiringInput:
    return FiringInput(
        schedule_id=request.id,
        temporal_id=temporal_id_of(caller, request.id),
        caller=caller.with_account,
        due=target.due,
        tool=target.tool,
        timing=Timing.model_validate(request.model_dump(include=set(Timing.model_fields))),
        spending=Spending.model_validate(request.model_dump(include=set(Spending.model_fields))),
        note=request.note,
        created_at=datetime.now(UTC),
        fingerprint=fingerprint,
    )


def temporal_id_of(caller: Caller, schedule_id: str) -> str:
    """The id of the Temporal Schedule: a digest of caller and name, so that nobody can name another's."""
    return f"schedule-{hashlib.sha256(json.dumps(['schedule', caller.id, schedule_id]).encode()).hexdigest()[:32]}"


@contextmanager
def _refused_times() -> Generator[None]:
    """Raise `ScheduleRefused` for what Temporal refuses as no times."""
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise ScheduleRefused(f"Temporal does not take these times: {error.message}") from error
        raise


def _timestamp(moment: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(moment.astimezone(UTC))
    return found


def _not_found(schedule_id: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"You have no schedule {schedule_id!r}.")


async def changed_order(due: DueCalls, caller: Caller, before: FiringInput, changes: ScheduleChanges) -> FiringInput:
    """`before` with the changes, for the caller as it is now. Raises `ScheduleRefused`, and as `DueCalls.admitted`."""
    said = {
        name: getattr(changes, name)
        for name in changes.model_fields_set
        if getattr(changes, name) is not None or name in _MAY_BE_ABSENT
    }
    timing = before.timing.model_copy(update={name: said[name] for name in said.keys() & Timing.model_fields.keys()})
    spending = before.spending.model_copy(
        update={name: said[name] for name in said.keys() & Spending.model_fields.keys()}
    )
    _check(timing, spending)
    update: dict[str, object] = {"timing": timing, "spending": spending, "caller": caller.with_account}
    if "note" in said:
        update["note"] = said["note"]
    if changes.targets:
        target = await due.admitted(caller, changes, before.due)
        update |= {"due": target.due, "tool": target.tool}
    return before.model_copy(update=update)


def _check(timing: Timing, spending: Spending) -> None:
    try:
        check_timing(timing)
    except ValueError as error:
        raise ScheduleRefused(f"Nothing was changed: {error}.") from error
    if spending.budget_usd is not None and timing.overlap == "allow_all":
        raise ScheduleRefused("Nothing was changed: with a budget, `overlap` cannot be `allow_all`.")
