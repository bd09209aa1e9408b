"""Telling that the Temporal server is away from what it refuses."""

from temporalio.service import RPCError, RPCStatusCode

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
