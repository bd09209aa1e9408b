"""How exceptions leave an activity: as an `ApplicationError` that carries an `ErrorEnvelope`."""

from collections.abc import Generator
from contextlib import contextmanager

from temporalio import activity
from temporalio.exceptions import TemporalError

from outlast.activities.failures.classify import classify, failure, retry_delay_of
from outlast.activities.failures.contracts import ErrorCategory


@contextmanager
def as_activity_failure() -> Generator[None]:
    """Turn what the block raises into an `ApplicationError` with its envelope.

    Temporal's own errors and cancellation pass. Neither they nor the new one have a cause: Temporal would write its
    unredacted text into the history.
    """
    try:
        yield
    except TemporalError as error:
        raise error from None
    except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
        envelope = classify(error, attempt=activity.info().attempt)
        if envelope.category is ErrorCategory.UNKNOWN:
            activity.logger.exception("An activity failed in a way that has no category")
        raise failure(envelope, retry_delay=retry_delay_of(error)) from None
