"""Results of activities in a history: of normal ones in their completion, of local ones in a marker."""

from collections.abc import Sequence

from pydantic_core import from_json
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent

_LOCAL_ACTIVITY = "core_local_activity"


class ActivityResults:
    """Reads the events of one history in order."""

    def __init__(self) -> None:
        """No activity is scheduled yet."""
        self._types: dict[int, str] = {}

    def read(self, event: HistoryEvent) -> tuple[str, Sequence[Payload]]:
        """The type and result of the activity that `event` says has completed; an empty type for any other event."""
        if event.HasField("activity_task_scheduled_event_attributes"):
            self._types[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        if event.HasField("activity_task_completed_event_attributes"):
            completed = event.activity_task_completed_event_attributes
            return self._types.get(completed.scheduled_event_id, ""), completed.result.payloads
        return _local_result(event)


def _local_result(event: HistoryEvent) -> tuple[str, Sequence[Payload]]:
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != _LOCAL_ACTIVITY or "result" not in marker.details:
        return "", ()
    # Temporal's SDK writes this payload by itself, past every codec.
    name: str = from_json(marker.details["data"].payloads[0].data)["activity_type"]
    return name, marker.details["result"].payloads
