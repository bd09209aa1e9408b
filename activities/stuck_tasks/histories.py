"""Histories of workflows, decoded: results of activities, and failures. Parts may be unreadable."""

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError
from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from outlast.activities.contracts import JsonObject
from outlast.activities.secrets import ContentDamaged

Model = TypeVar("Model", bound=BaseModel)

_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, DecodeError, ContentDamaged)
"""Exceptions for a payload that cannot be read later either."""
_OBJECT = TypeAdapter(JsonObject)


async def decoded(converter: DataConverter, payloads: Sequence[Payload], contract: type[Model]) -> Model | None:
    """The first value; None when there is none, or it is unreadable. Raises what may pass: `ContentKeyMissing`, and
    errors of the store of large payloads.
    """
    if not payloads:
        return None
    try:
        return contract.model_validate((await converter.decode(payloads[:1], [contract]))[0])
    except _UNREADABLE:
        return None


async def decoded_json(converter: DataConverter, payloads: Sequence[Payload]) -> JsonObject | None:
    """The first value as JSON; None when it is missing, unreadable or not an object. Raises as `decoded` does."""
    if not payloads:
        return None
    try:
        return _OBJECT.validate_python((await converter.decode(payloads[:1], [JsonObject]))[0])
    except _UNREADABLE:
        return None


def input_of(events: Sequence[HistoryEvent]) -> Sequence[Payload]:
    """Return the input of the workflow."""
    return events[0].workflow_execution_started_event_attributes.input.payloads


def signals(events: Sequence[HistoryEvent], name: str) -> list[Sequence[Payload]]:
    """Return the arguments of each signal of that name, in order."""
    found = (event.workflow_execution_signaled_event_attributes for event in events)
    return [signal.input.payloads for signal in found if signal.signal_name == name]


_LOCAL_ACTIVITY = "core_local_activity"


class ActivityResults:
    """Reads the events of one history in order."""

    def __init__(self) -> None:
        self._types: dict[int, str] = {}

    def read(self, event: HistoryEvent) -> tuple[str, Sequence[Payload]]:
        """Return the type and result of the activity that `event` completes; an empty type for any other event."""
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


class _Attributes(BaseModel):
    message: str = ""


async def readable(failure: Failure, converter: DataConverter) -> Failure:
    """Return the failure with its own message, where that is an encoded attribute (with encryption, it is)."""
    if not failure.HasField("encoded_attributes"):
        return failure
    [attributes] = await converter.decode([failure.encoded_attributes], [_Attributes])
    readable = Failure()
    readable.CopyFrom(failure)
    readable.message = attributes.message
    return readable
