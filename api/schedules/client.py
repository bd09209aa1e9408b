"""`ScheduleClient`: schedules over Temporal's. There is no table of schedules: Temporal keeps them."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from weakref import WeakValueDictionary

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import client as temporal
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Caller
from outlast.activities.schedules.activities import NoteCode, written_note
from outlast.activities.secrets import SecretSealer
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.limits.quotas import CountedPlaces
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import ScheduleDamaged, ScheduleExists, ScheduleNotFound, ScheduleRefused
from outlast.api.saved_calls import DueCalls, Target
from outlast.api.schedules.specification import OVERLAPS, specification
from outlast.api.temporal import schedule_view
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.visibility import derived_id, old_page, read_page_token, schedules_query, write_page_token
from outlast.contracts import schedules as contracts
from outlast.worker.payloads import UNREADABLE
from outlast.workflows.contracts import search_attributes
from outlast.workflows.schedules.contracts import FiringInput, Spending, Timing

_MAY_BE_ABSENT = frozenset({"start_at", "end_at", "budget_usd", "note"})
MAX_PAGE = 50
_DESCRIBED_AT_ONCE = 8
_RETRY_SECONDS = 30
_LEAST = timedelta(milliseconds=1)


@dataclass(eq=False)
class ScheduleClient:
    """Client of schedules for every entry point. Its methods raise `ApiError`s, for example `TemporalUnavailable`."""

    client: temporal.Client
    due: DueCalls
    sealer: SecretSealer
    policy: PolicySource
    audit: AuditLog
    limits: CallerLimits
    ui_url: str | None

    def __post_init__(self) -> None:
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._places = CountedPlaces("schedules", retry_after_seconds=_RETRY_SECONDS)

    async def create(self, caller: Caller, request: contracts.ScheduleRequest) -> contracts.Schedule:
        """Check the call or batch as if it started now, and schedule it. The same request again changes nothing.

        Raises what `DueCalls.admitted` raises, `ScheduleExists`, `ScheduleRefused` for invalid times, and
        `TooManyRequests` when the caller has too many schedules.
        """
        async with self.audit.action(AuditEvent.SCHEDULE_CREATED, caller, schedule=request.id) as action:
            fingerprints = self.sealer.digests(request.model_dump(mode="json"))
            found = await self._existing(caller, request.id)
            if found == "whole":
                action.note(outcome="repeated")
                return await self._repeated(caller, request.id, fingerprints)
            async with self._place(caller, temporal_id_of(caller, request.id)):
                target = await self.due.admitted(caller, request)
                action.note(tool=target.tool)
                order = _order(caller, request, target, fingerprints[0])
                note = NoteCode.PAUSED_WHEN_MADE if request.paused else None
                state = temporal.ScheduleState(paused=request.paused, note=note)
                try:
                    if found == "damaged":
                        await self._update(order, state)
                    else:
                        await self._start(order, state)
                except temporal.ScheduleAlreadyRunningError:
                    action.note(outcome="repeated")
                    return await self._repeated(caller, request.id, fingerprints)
        return await self.get(caller, request.id)

    async def get(self, caller: Caller, schedule_id: str) -> contracts.Schedule:
        """The current schedule with its latest firings, also if it is damaged. Needs no worker."""
        description = await self._description(caller, schedule_id)
        try:
            order = await _order_in(description, caller, schedule_id)
        except ScheduleDamaged as error:
            return schedule_view.unreadable_schedule(description, schedule_id, str(error))
        with temporal_errors():
            firings, spent_usd = await schedule_view.latest_firings(self.client, description)
        return await self._view(description, order, firings, spent_usd)

    async def list(
        self, caller: Caller, *, every: bool = False, page_size: int = MAX_PAGE, page_token: str | None = None
    ) -> contracts.SchedulePage:
        """The schedules of the caller, or with `every` of all; their firings without their state.

        Raises `BadRequest` for an invalid page token.
        """
        async with self.limits.awaited_slot(caller.id, "concurrent_lists"):
            query, size = schedules_query(None if every else caller.id), min(page_size, MAX_PAGE)
            token = read_page_token(page_token, query) if page_token else None
            with temporal_errors(invalid=old_page()):
                found = await self.client.list_schedules(query, page_size=size, next_page_token=token)
                await found.fetch_next_page(page_size=size)
            slots = asyncio.Semaphore(_DESCRIBED_AT_ONCE)
            shown = await asyncio.gather(
                *(self._listed(None if every else caller, one.id, slots) for one in found.current_page or ())
            )
            next_token = write_page_token(found.next_page_token, query) if found.next_page_token else None
        schedules = sorted((schedule for schedule in shown if schedule is not None), key=lambda one: one.id)
        return contracts.SchedulePage(schedules=tuple(schedules), next_page_token=next_token)

    async def upcoming(self, caller: Caller, *, every: bool = False, until: datetime) -> contracts.Upcoming:
        """The next firings of the schedules of the caller, or with `every` of all, until a time, in their order.

        At most ten of each schedule, and `MAX_UPCOMING` together; `more` says that there are others.
        """
        firings: list[contracts.UpcomingFiring] = []
        token, more = None, False
        while True:
            page = await self.list(caller, every=every, page_token=token)
            for schedule in page.schedules:
                due = [time for time in schedule.next if time <= until]
                more |= len(due) == schedule_view.MAX_NEXT
                facts = schedule.model_dump(include={"caller", "tool", "note", "damaged"})
                firings += [contracts.UpcomingFiring(at=time, schedule_id=schedule.id, **facts) for time in due]
            if (token := page.next_page_token) is None:
                break
        firings.sort(key=lambda firing: (firing.at, firing.schedule_id))
        more |= len(firings) > contracts.MAX_UPCOMING
        return contracts.Upcoming(until=until, firings=tuple(firings[: contracts.MAX_UPCOMING]), more=more)

    async def update(self, caller: Caller, schedule_id: str, changes: contracts.ScheduleChanges) -> contracts.Schedule:
        """Change what the changes name. Firings that have started are not changed. Raises as `create` does."""
        async with self.audit.action(AuditEvent.SCHEDULE_UPDATED, caller, schedule=schedule_id):
            before = await self._stored(caller, schedule_id)
            await self._update(await changed_order(self.due, caller, before, changes))
        return await self.get(caller, schedule_id)

    async def renew_times(self, caller: Caller, schedule_id: str) -> None:
        """Give Temporal the due times around the coming changes of the clock. Raises `ScheduleNotFound`."""
        await self._update(await self._stored(caller, schedule_id))

    async def delete(self, caller: Caller, schedule_id: str) -> None:
        """Delete the schedule. Firings that have started continue. Raises `ScheduleNotFound`."""
        async with self.audit.action(AuditEvent.SCHEDULE_DELETED, caller, schedule=schedule_id):
            with suppress(ScheduleDamaged):
                await self._stored(caller, schedule_id)
            with temporal_errors(missing=_not_found(schedule_id)):
                await self._handle(caller, schedule_id).delete()

    async def pause(self, caller: Caller, schedule_id: str, reason: str | None) -> contracts.Schedule:
        """Pause the schedule. Due times that pass meanwhile are not fired later."""
        note = await self._note(NoteCode.PAUSED_BY_CALLER, reason or f"Paused by {caller.id}.")
        async with self.audit.action(AuditEvent.SCHEDULE_PAUSED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.pause(note=note))

    async def resume(self, caller: Caller, schedule_id: str, reason: str | None) -> contracts.Schedule:
        """Resume a paused schedule."""
        note = await self._note(NoteCode.RESUMED, reason or f"Resumed by {caller.id}.")
        async with self.audit.action(AuditEvent.SCHEDULE_RESUMED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.unpause(note=note))

    async def trigger(self, caller: Caller, schedule_id: str) -> contracts.Schedule:
        """Fire the schedule now, even if it is paused. Its overlap policy applies; twice in a second is once."""
        async with self.audit.action(AuditEvent.SCHEDULE_TRIGGERED, caller, schedule=schedule_id):
            return await self._patched(caller, schedule_id, lambda handle: handle.trigger())

    async def backfill(self, caller: Caller, schedule_id: str, asked: contracts.BackfillRequest) -> contracts.DueTimes:
        """Fire the schedule for the due times in a period, and return them. Raises `ScheduleRefused` for too many."""
        async with self.audit.action(AuditEvent.SCHEDULE_BACKFILLED, caller, schedule=schedule_id) as action:
            order = await self._stored(caller, schedule_id)
            if asked.overlap == "allow_all" and order.spending.budget_usd is not None:
                raise ScheduleRefused("With a budget, firings must run one after another: choose another `overlap`.")
            due = await self._times(caller, schedule_id, asked)
            if len(due.times) > contracts.MAX_BACKFILLED:
                most, number = contracts.MAX_BACKFILLED, len(due.times)
                message = f"The schedule was due {number} times in this period; a backfill has at most {most}."
                raise ScheduleRefused(f"{message} Nothing was started: choose a shorter period.")
            action.note(detail=f"{len(due.times)} firings")
            backfill = temporal.ScheduleBackfill(
                start_at=asked.start, end_at=asked.end, overlap=OVERLAPS[asked.overlap]
            )
            await self._patched(caller, schedule_id, lambda handle: handle.backfill(backfill))
        return due

    async def times(self, caller: Caller, schedule_id: str, period: contracts.Period) -> contracts.DueTimes:
        """The due times in a period, its beginning and jitter included; at most a thousand."""
        await self._stored(caller, schedule_id)
        return await self._times(caller, schedule_id, period)

    async def _times(self, caller: Caller, schedule_id: str, period: contracts.Period) -> contracts.DueTimes:
        request = ListScheduleMatchingTimesRequest(
            namespace=self.client.namespace,
            schedule_id=temporal_id_of(caller, schedule_id),
            start_time=_timestamp(period.start - _LEAST),  # Temporal leaves its beginning out, here but in no backfill
            end_time=_timestamp(period.end),
        )
        refused = ScheduleRefused("The schedule is due too often in this period. Choose a shorter one.")
        with temporal_errors(missing=_not_found(schedule_id), invalid=refused):
            found = await self.client.workflow_service.list_schedule_matching_times(request)
        return contracts.DueTimes(times=tuple(time.ToDatetime(UTC) for time in found.start_time))

    async def _patched(
        self, caller: Caller, schedule_id: str, patch: Callable[[temporal.ScheduleHandle], Awaitable[None]]
    ) -> contracts.Schedule:
        """Change a schedule's state, and read it: of two changes at once Temporal may keep only one."""
        await self._stored(caller, schedule_id)
        with temporal_errors(missing=_not_found(schedule_id)):
            await patch(self._handle(caller, schedule_id))
        return await self.get(caller, schedule_id)

    async def _update(self, order: FiringInput, state: temporal.ScheduleState | None = None) -> None:
        """Give a schedule the specification of `order`, and `state` or else the state that it has."""

        def update(found: temporal.ScheduleUpdateInput) -> temporal.ScheduleUpdate:
            return temporal.ScheduleUpdate(schedule=specification(order, state or found.description.schedule.state))

        with temporal_errors(missing=_not_found(order.schedule_id)), _refused_times():
            await self.client.get_schedule_handle(order.temporal_id).update(update)

    async def _start(self, order: FiringInput, state: temporal.ScheduleState) -> None:
        attributes = search_attributes.of_schedule(order.caller.id, order.schedule_id)
        with temporal_errors(), _refused_times():
            await self.client.create_schedule(
                order.temporal_id, specification(order, state), search_attributes=attributes
            )

    def _place(self, caller: Caller, temporal_id: str) -> AbstractAsyncContextManager[None]:
        """Count one more of the caller's schedules. Raises `TooManyRequests`."""

        async def listed() -> set[str]:
            with temporal_errors():
                return {one.id async for one in await self.client.list_schedules(schedules_query(caller.id))}

        async def exists(temporal_id: str) -> bool:
            try:
                with temporal_errors(missing=_not_found(temporal_id)):
                    await self.client.get_schedule_handle(temporal_id).describe()
            except ScheduleNotFound:
                return False
            return True

        most = self.policy.of(caller.id).limits.schedules
        refusal = f"You have {most} schedules, which is your limit (`schedules` in the operator's policy). Delete one."
        return self._places.place(caller.id, temporal_id, most, listed=listed, exists=exists, refusal=refusal)

    async def _existing(self, caller: Caller, schedule_id: str) -> Literal["absent", "whole", "damaged"]:
        try:
            await self._stored(caller, schedule_id)
        except ScheduleNotFound:
            return "absent"
        except ScheduleDamaged:
            return "damaged"
        return "whole"

    async def _repeated(self, caller: Caller, schedule_id: str, fingerprints: tuple[str, ...]) -> contracts.Schedule:
        if (await self._stored(caller, schedule_id)).fingerprint not in fingerprints:
            raise ScheduleExists(
                f"You have another schedule {schedule_id!r}. Change it (PATCH /v1/schedules/{schedule_id}), or choose "
                "another id."
            )
        return await self.get(caller, schedule_id)

    async def _listed(
        self, caller: Caller | None, temporal_id: str, slots: asyncio.Semaphore
    ) -> contracts.Schedule | None:
        """One schedule of a list, of `caller` or of any; None if it was deleted meanwhile."""
        async with slots:
            try:
                with temporal_errors(missing=_not_found(temporal_id)):
                    description = await self.client.get_schedule_handle(temporal_id).describe()
            except ScheduleNotFound:
                return None
            try:
                order = await schedule_view.order_of(description)
            except UNREADABLE as error:
                name = description.typed_search_attributes.get(search_attributes.SCHEDULE) or temporal_id
                is_own = caller is None or temporal_id_of(caller, name) == temporal_id
                return schedule_view.unreadable_schedule(description, name, unreadable_words(error)) if is_own else None
            if order is None or (caller is not None and order.caller.id != caller.id):
                return None
            return await self._view(description, order, schedule_view.firings_without_state(description), None)

    async def _stored(self, caller: Caller, schedule_id: str) -> FiringInput:
        """The input of the schedule's firings. Raises `ScheduleNotFound`, `ScheduleDamaged`."""
        return await _order_in(await self._description(caller, schedule_id), caller, schedule_id)

    async def _description(self, caller: Caller, schedule_id: str) -> temporal.ScheduleDescription:
        """Temporal's description. Raises `ScheduleNotFound`."""
        # Temporal describes a schedule by a query of its workflow, and refuses many queries of one at a time.
        slots = self._slots.setdefault(temporal_id_of(caller, schedule_id), asyncio.Semaphore(_DESCRIBED_AT_ONCE))
        async with slots:
            with temporal_errors(missing=_not_found(schedule_id)):
                return await self._handle(caller, schedule_id).describe()

    async def _view(
        self,
        description: temporal.ScheduleDescription,
        order: FiringInput,
        firings: Sequence[contracts.Firing],
        spent_usd: float | None,
    ) -> contracts.Schedule:
        return await schedule_view.schedule_from(
            description, order, firings, spent_usd=spent_usd, ui_url=self.ui_url, namespace=self.client.namespace
        )

    async def _note(self, code: NoteCode, words: str) -> str:
        return await written_note(code, words, self.client.data_converter)

    def _handle(self, caller: Caller, schedule_id: str) -> temporal.ScheduleHandle:
        return self.client.get_schedule_handle(temporal_id_of(caller, schedule_id))


def _order(caller: Caller, request: contracts.ScheduleRequest, target: Target, fingerprint: str) -> FiringInput:
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
    """The id of the Temporal Schedule: a digest of caller and name, so that no caller can name another's."""
    return derived_id("schedule", "schedule", caller.id, schedule_id)


async def _order_in(description: temporal.ScheduleDescription, caller: Caller, schedule_id: str) -> FiringInput:
    """The input of the firings. Raises `ScheduleNotFound` for a schedule of another caller, and `ScheduleDamaged`."""
    try:
        order = await schedule_view.order_of(description)
    except UNREADABLE as error:
        message = f"What the schedule {schedule_id!r} starts cannot be read: {unreadable_words(error)}"
        raise ScheduleDamaged(message) from error
    if order is None or order.caller.id != caller.id:
        raise _not_found(schedule_id)
    return order


@contextmanager
def _refused_times() -> Generator[None]:
    """Raise `ScheduleRefused` for times that Temporal refuses."""
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise ScheduleRefused(f"Temporal does not accept these times: {error.message}") from error
        raise


def _timestamp(moment: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(moment.astimezone(UTC))
    return found


def _not_found(schedule_id: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"You have no schedule {schedule_id!r}.")


async def changed_order(
    due: DueCalls, caller: Caller, before: FiringInput, changes: contracts.ScheduleChanges
) -> FiringInput:
    """`before` with the changes, for the caller as it is now. Raises `ScheduleRefused`, and as `DueCalls.admitted`."""
    given = {
        name: getattr(changes, name)
        for name in changes.model_fields_set
        if getattr(changes, name) is not None or name in _MAY_BE_ABSENT
    }
    timing = before.timing.model_copy(update={name: given[name] for name in given.keys() & Timing.model_fields.keys()})
    changed = {name: given[name] for name in given.keys() & Spending.model_fields.keys()}
    spending = before.spending.model_copy(update=changed)
    try:
        contracts.check_timing(timing)
    except ValueError as error:
        raise ScheduleRefused(f"Nothing was changed: {error}.") from error
    if spending.budget_usd is not None and timing.overlap == "allow_all":
        raise ScheduleRefused("Nothing was changed: with a budget, `overlap` cannot be `allow_all`.")
    update: dict[str, object] = {"timing": timing, "spending": spending, "caller": caller.with_account}
    if "note" in given:
        update["note"] = given["note"]
    if changes.targets:
        target = await due.admitted(caller, changes, before.due)
        update |= {"due": target.due, "tool": target.tool}
    return before.model_copy(update=update)
