"""What the Temporal server refuses or fails to answer, in our words; and telling the one from the other."""

from collections.abc import Generator
from contextlib import contextmanager

from temporalio.service import RPCError, RPCStatusCode

from outlast.api.errors import ApiError, TaskDataLost, TaskDataUnavailable, TemporalUnavailable
from outlast.worker.external_storage import PayloadLost, PayloadUnavailable

_UNREACHABLE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
        # What Temporal answers when a time limit, a lock or a connection of its own gives way under load.
        RPCStatusCode.ABORTED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    }
)


def is_outage(error: BaseException) -> bool:
    """Whether the same request may succeed later: nothing was refused, nobody answered."""
    return isinstance(error, RPCError) and error.status in _UNREACHABLE


@contextmanager
def temporal_errors(*, missing: ApiError | None = None, invalid: ApiError | None = None) -> Generator[None]:
    """Raise `missing` for what Temporal does not know, `invalid` (or else `missing`) for what cannot be.

    Raises `TemporalUnavailable` when it does not answer, `TaskDataLost` and `TaskDataUnavailable` for payloads that
    cannot be had.
    """
    refusals = {RPCStatusCode.NOT_FOUND: missing, RPCStatusCode.INVALID_ARGUMENT: invalid or missing}
    try:
        yield
    except RPCError as error:
        refusal = refusals.get(error.status)
        if refusal is not None:
            raise refusal from error
        if is_outage(error):
            raise TemporalUnavailable(
                "The Temporal server does not answer. Nothing is lost; ask again shortly."
            ) from error
        raise
    except PayloadLost as error:
        raise TaskDataLost(str(error)) from error
    except PayloadUnavailable as error:
        raise TaskDataUnavailable(str(error)) from error
    except RuntimeError as error:  # a lazy client that cannot connect
        raise TemporalUnavailable(
            "The Temporal server cannot be reached. Nothing is lost; ask again shortly."
        ) from error
