"""Activities of firings of schedules, and the notes of Temporal Schedules. The API runs `start_firing`, workers run
the others.

The notes of Temporal Schedules: a code that anybody may read, and words that are encrypted where histories are.

Temporal keeps the note of a schedule as plain text, in its database and in backups of it. The words of a caller, or of
a failure, are a payload in it.

    paused-by-caller                          without words
    paused-by-caller "holidays"               encryption is off
    paused-by-caller enc:CiIKCGVuY29kaW5n...  a payload of Temporal, encrypted and in base64
"""

import asyncio
import base64
import json
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from google.protobuf.message import DecodeError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.converter import DataConverter

from outlast.activities.failures.classify import as_activity_failure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.schedules.contracts import FiringEnd, FiringStart, PauseInput, Started, StartFiringInput
from outlast.activities.secrets import ContentDamaged, ContentKeyMissing
from outlast.activities.workflow_requests import ignore_missing

_MARK = "enc:"
_PLAIN = b"json/plain"


class NoteCode(StrEnum):
    """The reason for the state of a schedule."""

    PAUSED_BY_CALLER = "paused-by-caller"
    PAUSED_BY_FIRING = "paused-by-firing"
    PAUSED_WHEN_MADE = "paused-when-made"
    RESUMED = "resumed-by-caller"


_WITHOUT_WORDS = {
    NoteCode.PAUSED_BY_CALLER: "Paused.",
    NoteCode.PAUSED_BY_FIRING: "Paused by the outcome of a firing.",
    NoteCode.PAUSED_WHEN_MADE: "Paused since it was made.",
    NoteCode.RESUMED: "Resumed.",
}


async def written_note(code: NoteCode, words: str | None, converter: DataConverter) -> str:
    """Return the note with these `words`, encrypted as `converter` encrypts what enters a history."""
    if words is None:
        return code.value
    (payload,) = await converter.encode([words])
    if payload.metadata.get("encoding") == _PLAIN:
        return f"{code} {json.dumps(words, ensure_ascii=False)}"
    return f"{code} {_MARK}{base64.b64encode(payload.SerializeToString()).decode()}"


async def read_note(note: str | None, converter: DataConverter) -> str | None:
    """The words of a note; of one that Outlast has not written, the note. None for an empty one. Words that cannot be
    decrypted, or that were changed in Temporal, are replaced by those of the code.
    """
    if not note:
        return None
    code, _, words = note.partition(" ")
    if code not in _WITHOUT_WORDS:
        return note
    default = _WITHOUT_WORDS[NoteCode(code)]
    try:
        if not words.startswith(_MARK):
            return str(json.loads(words)) if words else default
        payload = Payload.FromString(base64.b64decode(words.removeprefix(_MARK), validate=True))
        (decoded,) = await converter.decode([payload], [str])
    except (ValueError, DecodeError, RuntimeError, ContentDamaged, ContentKeyMissing):
        return default
    return str(decoded)


START_ATTEMPT_TIMEOUT = timedelta(minutes=10)
"""A batch of a hundred thousand rows takes a minute or two to be read and checked."""
START_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
START_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
START_GRACE = timedelta(hours=1)
"""The time after the last moment of a start until the workflow gives it up: before, an attempt reports that it is
too late, and whether an earlier one has started something."""
AWAIT_TIMEOUT = timedelta(days=60)
"""Longer than anything that a schedule starts may take; heartbeats show that the wait is alive."""
AWAIT_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
QUICK_ATTEMPT_TIMEOUT = timedelta(seconds=30)
PATIENT_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_PAUSE_LOOKS = 20
_LOOK_SECONDS = 0.25


class FiringStarter(Protocol):
    """Starts what is due. The API has one: it judges a firing as it judges a request of the caller."""

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Start it, once for the firing, whatever was lost of earlier attempts. Raises for what may be gone when
        it is tried again.
        """
        ...


class StartedWork(Protocol):
    """Running tasks and batches. Every method raises `RPCError` if Temporal does not answer."""

    async def end_of(self, started: Started) -> FiringEnd:
        """Return the end of the work, as soon as it has ended."""
        ...

    async def cancel(self, started: Started) -> None:
        """Cancel the work, unless it has ended."""


class FiringStartActivities:
    """Has what is due started, in a process that can judge it."""

    def __init__(self, starter: FiringStarter) -> None:
        self._starter = starter

    @activity.defn
    async def start_firing(self, request: StartFiringInput) -> FiringStart:
        """Start the due work, at most once for the firing, or return the reason why nothing starts."""
        async with activity_scope(hands_over=True):
            return await self._starter.start(request)


class FiringActivities:
    """Awaits and cancels the work of a firing, and pauses its schedule."""

    def __init__(self, client: Client, work: StartedWork) -> None:
        self._client = client
        self._work = work

    @activity.defn
    async def await_firing(self, started: Started) -> FiringEnd:
        """Wait for the end of a firing's work. When its worker stops, another one continues to wait."""
        async with activity_scope(hands_over=True):
            return await self._work.end_of(started)

    @activity.defn
    async def cancel_firing(self, started: Started) -> None:
        """Cancel a firing's work; its end comes later."""
        with as_activity_failure():
            await self._work.cancel(started)

    @activity.defn
    async def pause_schedule(self, request: PauseInput) -> None:
        """Pause a schedule, and see that it is: of two changes at once, Temporal may keep the later one only. One that
        was deleted is left alone.
        """
        handle = self._client.get_schedule_handle(request.temporal_id)
        with as_activity_failure():
            note = await written_note(NoteCode.PAUSED_BY_FIRING, request.note, self._client.data_converter)
            with ignore_missing():
                for _ in range(_PAUSE_LOOKS):
                    await handle.pause(note=note)
                    if (await handle.describe()).schedule.state.paused:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
                raise RuntimeError(f"The schedule {request.temporal_id} does not stay paused.")
