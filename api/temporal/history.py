"""Reads a workflow's history as a stream of events. Needs no worker, and always gives the same events.

`follow_history` gives the entries of each run to a `RunFold`, one kind of which reads tasks, turns or sessions.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.outputs.reader import Held, Room
from outlast.activities.pacing import Looks
from outlast.activities.secrets import ContentDamaged, ContentKeyMissing
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.errors import TaskDataLost, TaskDataUnavailable
from outlast.api.temporal.errors import is_outage, temporal_errors
from outlast.worker.payloads import PayloadLost, PayloadUnavailable, PayloadUnreadable

DESCRIPTIONS: Final = Looks(per_second=50)
"""Looks at single workflows. With 1,000 streams, each shows a new status message within 20 seconds."""
OUTAGES: Final = Looks(per_second=50)
"""Attempts to read what an outage of Temporal has interrupted."""
LISTS: Final = Looks(per_second=10)
"""Looks through lists, which cost more."""
Event = TypeVar("Event")
log = logging.getLogger("outlast.api")
OUTAGE_PAUSE_SECONDS = 1.0
ABNORMAL_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "The workflow failed.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "An operator terminated the workflow.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "The workflow timed out.",
}
"""Ways in which a workflow ends without its own outcome, and the message for clients."""
_PASSING = frozenset(
    {
        # The run exists, but a page of its history does not, or not for its page token: read from the beginning.
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.OUT_OF_RANGE,
        RPCStatusCode.FAILED_PRECONDITION,
        # "History is incomplete": the server compared a page with a state that was a moment newer or older.
        RPCStatusCode.DATA_LOSS,
    }
)
_FAILURES_WITHOUT_PROGRESS = 5
_PAGE_BYTES = 1024 * 1024
"""Room for a page of unknown size. A page that needs more is read again, with room for it."""
_SMALL_PAGE_BYTES = 128 * 1024
"""Room for a page that follows a small one, and that may wait for entries."""
_FIRST_PAGE = 2
_LARGEST_PAGE = 64
"""Sizes of pages that are read into limited room, in commits of Temporal: one event, or those of one workflow step."""
_COPIES = 6
"""Memory that an entry takes until its events were sent, in multiples of its size."""
_NEWS_SECONDS = 0.2
"""A page that takes longer waits for new events, and takes no room."""
_LATE_SECONDS = 1.0
"""Additional time for a page whose entries exist, before they count as left out."""
_SLOWER = 10
"""On a slow server this time is a multiple of the time for the length of the history."""
_STORED_ELSEWHERE = b"json/external-storage-reference"
_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
_ATTEMPTS = frozenset({EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED})
_ENDS = frozenset(
    {
        *ABNORMAL_ENDS,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        _CONTINUED,
    }
)
_Page = tuple[deque[HistoryEvent], bytes | None]


class RunFold(ABC, Generic[Event]):
    """A reader's state while it reads the history of one run."""

    def __init__(self, converter: DataConverter, number: int = 0) -> None:
        """Read run `number` of the workflow, counted from 0, and decode payloads with `converter`."""
        self.number = number
        self.continued_as: str | None = None
        self._converter = converter

    async def read(self, entry: HistoryEvent) -> Iterable[Event]:
        """The events of `entry`; empty for content of another version, as in a workflow that is stuck."""
        if entry.event_type == _CONTINUED:
            continued = entry.workflow_execution_continued_as_new_event_attributes
            self.continued_as = continued.new_execution_run_id
            return ()
        try:
            return await self.events_of(entry)
        except (ValidationError, DecodeError, PayloadUnreadable) as error:
            # Without the error's text: it contains values of the caller.
            log.warning("An entry of a history gives no events, since it cannot be read (%s)", type(error).__name__)
            return ()

    @abstractmethod
    async def events_of(self, entry: HistoryEvent) -> Iterable[Event]:
        """The events of `entry`, which is not a continue-as-new."""

    async def decode(self, payload: Payload, contract: type[Any]) -> Any:
        """The value in `payload`."""
        return (await self._converter.decode([payload], [contract]))[0]

    async def readable(self, failure: Failure) -> Failure:
        """The failure with its own message."""
        return await readable(failure, self._converter)


async def follow_history(
    client: Client,
    workflow_id: str,
    run_id: str | None,
    new_fold: Callable[[int], RunFold[Event]],
    *,
    wait: bool,
    room: Room | None = None,
) -> AsyncGenerator[Event]:
    """The events of a workflow from the run `run_id` on (the latest run for None), to its end; with `wait` future ones.

    After an outage of Temporal or the store of payloads, it reads the run again from the beginning with a new fold, so
    callers have to skip events that they already have. Ends early if Temporal has removed the history. With `room`,
    each event occupies it until the next one is requested.

    Raises `TaskDataLost` for a payload that is lost, `TaskDataUnavailable` for one whose key is not in the ring, and
    `RPCError` for a request that Temporal refuses every time.
    """
    number, patience = 0, _Patience()
    while True:
        fold = new_fold(number)
        try:
            history = _History(client, workflow_id, run_id, wait=wait)
            async with aclosing(history.entries(room)) as entries:
                async for entry in entries:
                    patience.has_read(number, entry.event_id)
                    events = deque(await fold.read(entry))
                    del entry  # it would keep its whole page in memory until the next one comes
                    while events:
                        yield events.popleft()
        except (PayloadLost, ContentDamaged) as error:
            raise TaskDataLost(str(error)) from error
        except ContentKeyMissing as error:
            raise TaskDataUnavailable(str(error)) from error
        except (PayloadUnavailable, RPCError, RuntimeError) as error:
            if _is_not_found(error) and await _is_removed(client, workflow_id, run_id):
                return
            if not patience.lasts(error):
                raise
            await OUTAGES.pause(OUTAGE_PAUSE_SECONDS)
            continue
        if fold.continued_as is None:
            return
        run_id, number = fold.continued_as, number + 1


@dataclass
class _Read:
    """The response to one request for a page."""

    page: deque[HistoryEvent]
    following: bytes | None
    """The token of the next page."""
    missing: int = 0
    """The number of entries that were left out before this page."""
    is_without_room: bool = False


class _Place:
    """Position in a history that is being read.

    Temporal (server 1.32) appends entries that are written during the reading to the last page of a running workflow,
    cuts them off at the page size, and continues after all of them. Entries were left out if the next page begins too
    late, if no page comes although the history is longer, or if the last page does not end the run. A larger page then
    includes them; if they are many, the history is read again from its beginning.
    """

    def __init__(self) -> None:
        self.token: bytes | None = None
        """The page to read next."""
        self._has_ended = False
        self._began_again_at = 0
        """The last entry when the history was read again for its end."""
        self._last = 0
        """The ID of the last entry."""
        self._lasting = 0
        """The ID of the last final entry: the ID of an attempt of a workflow task is later used for another entry."""
        self._checked = 0
        """The last entry at the last lookup of the history's length."""
        self._source: bytes | None = None
        """The page on which the last entry was."""
        self.is_read_again = False
        """True while the page to read next exists already, since entries on it were left out."""

    def missing(self, page: deque[HistoryEvent]) -> int:
        """The number of entries between the last one and `page`, without those that were read before."""
        while page and page[0].event_id <= self._lasting:
            page.popleft()
        return max(0, page[0].event_id - self._last - 1) if page else 0

    async def written_after(self, length: Callable[[], Awaitable[int]]) -> int:
        """Number of entries after the last one. Each position is looked up once."""
        if self._checked == self._last:
            return 0
        self._checked = self._last
        return max(0, await length() - self._last)

    def move(self, page: deque[HistoryEvent], following: bytes | None) -> None:
        """Note that `page` was read, and that `following` is the next one."""
        self.is_read_again = False
        if page:
            self._source, self._last = self.token, page[-1].event_id
            final = (one.event_id for one in page if one.event_type not in _ATTEMPTS)
            self._lasting = max(final, default=self._lasting)
            self._has_ended = page[-1].event_type in _ENDS
        self.token = following

    def begins_again(self) -> bool:
        """Return True, once for each entry, if the end was left out of the last page: read again from the first."""
        if self._has_ended or self._began_again_at == self._last:
            return False
        self._began_again_at = self._last
        return True

    def go_back(self, missing: int) -> int:
        """Return to where `missing` entries were left out. Returns the least size of the page to read there."""
        self.is_read_again = True
        commits = 2 * missing  # there may be more of them by then
        if commits > _LARGEST_PAGE:
            self.token = None
            return 1
        self.token = self._source
        return commits


@dataclass(frozen=True)
class _History:
    """The history of one run."""

    client: Client
    workflow_id: str
    run_id: str | None
    wait: bool

    async def entries(self, room: Room | None) -> AsyncGenerator[HistoryEvent]:
        """Entries in order. With `room`, the entries of a page occupy it until the next page is requested."""
        place, needed, least = _Place(), _PAGE_BYTES, 1
        commits = _LARGEST_PAGE if room is None else _FIRST_PAGE
        keeps_room = False
        while True:
            async with nullcontext() if room is None else room.hold(needed) as held:
                read = await self._next(place, commits, None if keeps_room else held)
                taken = 0 if held is None else _COPIES * sum(map(_size_of, read.page))
                fits = taken <= needed
                # Other readers took the room. The page exists now, so it is read again within new room.
                keeps_room = read.is_without_room and taken > 0 and room is not None and room.is_scarce
                if fits and not read.missing and not keeps_room:
                    if held is not None:
                        held.holds(taken)
                    place.move(read.page, read.following)
                    while read.page:
                        yield read.page.popleft()
            read.page.clear()
            if read.missing:
                commits = least = place.go_back(read.missing)
                needed = _PAGE_BYTES
            elif not fits:
                commits, needed = (least, _PAGE_BYTES) if commits > least else (least, taken)
            elif keeps_room:
                continue
            elif place.token is None and not (self.wait and place.begins_again()):
                return
            else:
                expected = _PAGE_BYTES if place.token is None else taken
                needed, least = min(max(expected, _SMALL_PAGE_BYTES), _PAGE_BYTES), 1
                if 2 * taken < _SMALL_PAGE_BYTES:
                    commits = min(2 * commits, _LARGEST_PAGE)

    async def _next(self, place: _Place, commits: int, held: Held | None) -> _Read:
        """Read the next page. One that waits for new entries is read without the room `held`."""
        reading = asyncio.ensure_future(self._page(place.token, commits))
        is_without_room = False
        try:
            may_wait = self.wait and place.token is not None and not place.is_read_again
            if may_wait and not (await asyncio.wait({reading}, timeout=_NEWS_SECONDS))[0]:
                clock = asyncio.get_running_loop().time
                began = clock()
                missing = await place.written_after(self._length)
                # A server that is slow to return the length is slow to send the page, too.
                late_seconds = max(_LATE_SECONDS, _SLOWER * (clock() - began))
                if missing and not (await asyncio.wait({reading}, timeout=late_seconds))[0]:
                    return _Read(deque(), None, missing)
                if not missing and held is not None:
                    held.holds(0)
                    is_without_room = True
            page, following = await reading
        finally:
            reading.cancel()
        return _Read(page, following, place.missing(page), is_without_room)

    async def _length(self) -> int:
        return (await self.client.get_workflow_handle(self.workflow_id, run_id=self.run_id).describe()).history_length

    async def _page(self, token: bytes | None, commits: int) -> _Page:
        """The entries of at most `commits` commits, and the token of the next page, if there is one."""
        handle = self.client.get_workflow_handle(self.workflow_id, run_id=self.run_id)
        pages = handle.fetch_history_events(page_size=commits, next_page_token=token, wait_new_event=self.wait)
        await pages.fetch_next_page()
        return deque(pages.current_page or ()), pages.next_page_token


def _size_of(entry: HistoryEvent) -> int:
    """The bytes of an entry, with those of its payloads that are stored elsewhere."""
    wire = entry.SerializeToString()
    return len(wire) + (sum(_sizes_elsewhere(entry)) if _STORED_ELSEWHERE in wire else 0)


def _sizes_elsewhere(message: Message) -> Iterator[int]:
    """The sizes of the payloads in `message` that are stored elsewhere."""
    if isinstance(message, Payload):
        yield from (stored.size_bytes for stored in message.external_payloads)
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = value.values()
        else:
            values = value if field.is_repeated else (value,)
        for each in values:
            if isinstance(each, Message):
                yield from _sizes_elsewhere(each)


class _Patience:
    """Decides about retries: always during an outage, a few times without progress after other temporary errors."""

    def __init__(self) -> None:
        self._furthest = (0, 0)
        self._failed = 0

    def has_read(self, number: int, event_id: int) -> None:
        """Note that event `event_id` of run `number` was read."""
        if (number, event_id) > self._furthest:
            self._furthest, self._failed = (number, event_id), 0

    def lasts(self, error: Exception) -> bool:
        """Return whether to read again after `error`."""
        if isinstance(error, PayloadUnavailable) or is_outage(error):
            return True
        if not isinstance(error, RPCError) or error.status not in _PASSING:
            return False
        self._failed += 1
        return self._failed <= _FAILURES_WITHOUT_PROGRESS


def _is_not_found(error: Exception) -> bool:
    return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND


async def _is_removed(client: Client, workflow_id: str, run_id: str | None) -> bool:
    """Return whether Temporal has removed the run, since its history can also be missing for a moment."""
    try:
        await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    except (RPCError, RuntimeError) as error:
        return _is_not_found(error)
    return False


def time_of(entry: HistoryEvent) -> datetime:
    """The time at which the entry was written, in UTC."""
    return entry.event_time.ToDatetime(tzinfo=UTC)


class RawPayloads:
    """Decrypts payloads, and fetches those to which Temporal has a reference. Encrypted secrets stay encrypted."""

    def __init__(self, client: Client) -> None:
        self.namespace = client.namespace
        self._converter = client.data_converter

    async def opened(self, payloads: Sequence[Payload], *, fetch: bool) -> list[Payload]:
        """The payloads, decrypted; with `fetch` also those in the store, else their references.

        Raises `TaskDataLost` and `TaskDataUnavailable`.
        """
        return [
            await self._opened(payload) if fetch or not payload.external_payloads else payload for payload in payloads
        ]

    async def _opened(self, payload: Payload) -> Payload:
        with temporal_errors():
            [raw] = await self._converter.decode([payload], [RawValue])
        return raw.payload
