"""Histories as a worker may have seen them whose workflow task came after one that had timed out.

Its `workflow.now()` was then that of the workflow task before; in a replay it is another one. Commands must not differ.
"""

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.client import WorkflowHistory

_STARTED = "workflow_task_started_event_attributes"


def with_stale_times(history: WorkflowHistory) -> WorkflowHistory:
    """`history`, in which each workflow task has the time of the one before."""
    before: Timestamp | None = None
    for event in history.events:
        if event.HasField(_STARTED):
            own = Timestamp()
            own.CopyFrom(event.event_time)
            if before is not None:
                event.event_time.CopyFrom(before)
            before = own
    return history
