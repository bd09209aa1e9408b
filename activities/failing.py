"""The way out of an activity: every exception becomes an `ApplicationError` that carries its `ErrorEnvelope`."""

from collections.abc import Generator
from contextlib import contextmanager

from temporalio import activity
from temporalio.exceptions import TemporalError

from activities.errors import classify, failure


@contextmanager
def as_activity_failure() -> Generator[None]:
    """Turn what the block raises into `activities.errors.failure`; Temporal's own errors and cancellation pass."""
    try:
        yield
    except TemporalError:
        raise
    except Exception as error:
        raise failure(classify(error, attempt=activity.info().attempt)) from error
