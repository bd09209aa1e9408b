"""Cancellation while the answer to an update of a workflow is awaited."""

import asyncio


def raise_cancellation(error: BaseException) -> None:
    """Raise `CancelledError` when the current task is being cancelled.

    For `WorkflowUpdateRPCTimeoutOrCancelledError`: Temporal's SDK raises it for a time-out, and in the place of the
    cancellation, which would be lost.
    """
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError from error
