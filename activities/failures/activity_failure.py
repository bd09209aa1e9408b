"""Failures of activities: an exception leaves as an `ApplicationError` with an `ErrorEnvelope`. The classifier decides
what Temporal retries. A transient error such as an unreadable response is permanent after `ENOUGH` times in a row;
outages are retried without end. The workflow of the task is signalled in both cases.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cachetools import LRUCache
from temporalio import activity
from temporalio.exceptions import ApplicationError, TemporalError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from outlast.activities.failures.classify import (
    CAPACITY_RETRY_DELAY,
    classify,
    failure,
    may_be_permanent,
    retry_delay_of,
)
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.pacing import Line

ENOUGH: Final = 5
"""After so many failures of one kind in a row the task is signalled, and retries may end."""
_LONG_ATTEMPT = timedelta(minutes=5)
"""An attempt that worked for longer has made progress: its failure is the first one."""
_MAX_ACTIVITIES = 20_000
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Seen:
    kind: str
    count: int


_seen: LRUCache[tuple[str, str], _Seen] = LRUCache(_MAX_ACTIVITIES)


def count_failure(info: activity.Info, envelope: ErrorEnvelope) -> int:
    """Return the number of attempts that have failed in a row with this category and message, this one included."""
    key = _key_of(info)
    kind = f"{envelope.category}:{_DIGITS.sub('#', envelope.message)[:300]}"
    before = _seen.get(key)
    made_progress = datetime.now(UTC) - info.started_time > _LONG_ATTEMPT
    is_same = before is not None and before.kind == kind and not made_progress
    count = before.count + 1 if is_same and before is not None else 1
    _seen[key] = _Seen(kind, count)
    return count


def failures_in_a_row(info: activity.Info) -> int:
    """As `count_failure` counted them last; 0 before the first."""
    seen = _seen.get(_key_of(info))
    return seen.count if seen is not None else 0


def _key_of(info: activity.Info) -> tuple[str, str]:
    return info.workflow_run_id or "", info.activity_id


ATTEMPTS_FAIL_SIGNAL = "attempts_fail"
"""Tells a tool call's workflow, in words, that one of its activities fails again and again."""
_TOLD_WORKFLOW = "ToolCallWorkflow"


_FOR_ROOM, _FOR_THE_PLATFORM = Line(per_second=20), Line(per_second=50)
"""Activities of each caller that are tried again because the account is full, and because of an outage."""


@contextmanager
def as_activity_failure(*, waits_of: str | None = None) -> Generator[None]:
    """Turn an exception of the block into an `ApplicationError` with its envelope, without a cause: Temporal would
    write its unredacted text into the history. Temporal's own errors and cancellation pass. `waits_of` is the caller of
    an activity of which thousands may wait: the pauses grow with their number.
    """
    try:
        yield
    except TemporalError as error:
        raise error from None
    except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
        info = activity.info()
        envelope = classify(error, attempt=info.attempt)
        if envelope.category is ErrorCategory.UNKNOWN:
            activity.logger.exception("An activity failed in a way that has no category")
        if envelope.retryable and count_failure(info, envelope) >= ENOUGH and may_be_permanent(error):
            envelope = _given_up(envelope)
        delay = retry_delay_of(error)
        if waits_of is not None and envelope.retryable and not info.is_local:
            delay = _in_line(info, envelope, waits_of, delay)
        raise failure(envelope, retry_delay=delay) from None


def _in_line(info: activity.Info, envelope: ErrorEnvelope, caller_id: str, delay: timedelta | None) -> timedelta | None:
    """Return the pause before the next attempt, where others wait as well; `delay` while they are few."""
    waits_for_room = envelope.category is ErrorCategory.CAPACITY
    own = delay or (CAPACITY_RETRY_DELAY if waits_for_room else _own_pause(info))
    line = _FOR_ROOM if waits_for_room else _FOR_THE_PLATFORM
    pause = line.pause(f"{info.activity_type} {caller_id}", own)
    return pause if pause > own else delay


def _own_pause(info: activity.Info) -> timedelta:
    """Return the pause that the activity's retry policy would make."""
    policy = info.retry_policy
    if policy is None:
        return timedelta(0)
    longest = policy.maximum_interval or policy.initial_interval * 100
    return min(policy.initial_interval * policy.backoff_coefficient ** min(info.attempt - 1, 20), longest)


def _given_up(envelope: ErrorEnvelope) -> ErrorEnvelope:
    message = f"{envelope.message} It was the same {ENOUGH} times, so it is not tried again."
    return envelope.model_copy(update={"message": message, "retryable": False})


class RepeatedFailures(Interceptor):
    """Tells the workflow of a tool call when one of its activities has failed in the same way `ENOUGH` times in a row.
    A reader of the task sees each failed attempt as it is, from Temporal's description. The workflow shows it to
    operators, in its current details.
    """

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK's name)
        """Look at the failures of a worker's activities."""
        return _Telling(next)


class _Telling(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        try:
            return await super().execute_activity(input)
        except ApplicationError as error:
            info = activity.info()
            if not info.is_local and not error.non_retryable and info.workflow_type == _TOLD_WORKFLOW:
                await _tell(info, error)
            raise


async def _tell(info: activity.Info, error: ApplicationError) -> None:
    if failures_in_a_row(info) != ENOUGH or info.workflow_id is None:
        return
    words = f"{info.activity_type} has failed {ENOUGH} times in the same way, and is tried again: {error.message}"
    workflow = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    try:
        await workflow.signal(ATTEMPTS_FAIL_SIGNAL, words)
    except Exception as not_told:  # noqa: BLE001 (the failure itself is what matters)
        activity.logger.warning("The signal about a failing activity was not sent: %s", type(not_told).__name__)
