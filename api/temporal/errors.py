"""Errors of the Temporal client as errors of the API, timeouts of workers' answers, and ids of events."""

import asyncio
import re
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

from google.protobuf.message import DecodeError
from pydantic import ValidationError
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.heartbeat import raise_cancellation
from outlast.activities.secrets import ContentDamaged, ContentKeyMissing
from outlast.api.errors import (
    ApiError,
    BadRequest,
    TaskDataLost,
    TaskDataUnavailable,
    TemporalBusy,
    TemporalUnavailable,
)
from outlast.worker.payloads import PayloadLost, PayloadUnavailable, PayloadUnreadable

WORKER_SECONDS = 30.0
"""Longest wait for an answer."""
Answer = TypeVar("Answer")
_UNREACHABLE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
        # Temporal's response when one of its own time limits, locks or connections fails under load.
        RPCStatusCode.ABORTED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    }
)
_NO_POLLER = "no poller"
"""Part of the message of a query that no worker takes in time."""
_FAILED_STEP = "Workflow Task in failed state"
"""Part of the message of a query or an update of a workflow whose step has failed, and is repeated."""
_FAILED_CONNECT = "Failed client connect"
"""Beginning of the message of the `RuntimeError` that a lazy client raises when it cannot connect (temporalio 1.x)."""


async def answer_of_worker(answer: Awaitable[Answer], advice: str = "Nothing is lost; retry shortly.") -> Answer:
    """Await an answer that only a worker can give. Raises `TemporalUnavailable` with `advice` after a timeout."""
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            return await answer
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise_cancellation(error)
        raise TemporalUnavailable(f"No worker has answered within {WORKER_SECONDS:g} seconds. {advice}") from None


def unreadable_words(error: BaseException) -> str:
    """The reason, as a sentence, why a record cannot be read. `error` is one of `UNREADABLE`."""
    known = isinstance(error, ContentDamaged | ContentKeyMissing | PayloadLost)
    return str(error) if known else "Its record is damaged, or of another version."


def is_outage(error: BaseException) -> bool:
    """Return whether Temporal did not answer, so that the same request may succeed later."""
    if isinstance(error, RPCError):
        return error.status in _UNREACHABLE
    return type(error) is RuntimeError and str(error).startswith(_FAILED_CONNECT)


@contextmanager
def temporal_errors(*, missing: ApiError | None = None, invalid: ApiError | None = None) -> Generator[None]:
    """Raise `missing` for workflows that do not exist, and `invalid` (or else `missing`) for malformed arguments.

    Raises `TemporalUnavailable` when Temporal does not answer, or no worker answers a query, `TemporalBusy` when it
    limits requests, `TaskDataLost` and `TaskDataUnavailable` for payloads that cannot be read from the store. Any other
    error passes unchanged.
    """
    known = {RPCStatusCode.NOT_FOUND: missing, RPCStatusCode.INVALID_ARGUMENT: invalid or missing}
    try:
        yield
    except (PayloadLost, PayloadUnreadable, ContentDamaged, ValidationError, DecodeError) as error:
        raise TaskDataLost(unreadable_words(error)) from error
    except (PayloadUnavailable, ContentKeyMissing) as error:
        raise TaskDataUnavailable(str(error)) from error
    except (RPCError, RuntimeError) as error:
        status = error.status if isinstance(error, RPCError) else None
        meant = known.get(status) if status is not None else None
        if meant is not None:
            raise meant from error
        if status is RPCStatusCode.RESOURCE_EXHAUSTED:
            message = "The task store accepts no more requests at the moment. Repeat the request after `Retry-After`."
            raise TemporalBusy(message) from error
        if status is RPCStatusCode.FAILED_PRECONDITION and _NO_POLLER in str(error):
            raise TemporalUnavailable("No worker has answered. Nothing is lost; retry shortly.") from error
        if _FAILED_STEP in str(error):
            message = "The last step of the workflow has failed, and is repeated. Nothing is lost; retry shortly."
            raise TemporalUnavailable(message) from error
        if is_outage(error):
            raise TemporalUnavailable("The Temporal server does not answer. Nothing is lost; retry shortly.") from error
        raise


def parts_of_id(pattern: re.Pattern[str], event_id: str | None) -> tuple[str, ...] | None:
    """The parts of a `Last-Event-ID`; None without one. Raises `BadRequest` for the id of another kind of stream."""
    if not event_id:
        return None
    match = pattern.fullmatch(event_id)
    if match is None:
        message = f"{event_id[:50]!r} is not the id of an event; pass the id of the last event received, or none."
        raise BadRequest(message)
    return match.groups()
