"""Reads the histories of stuck workflows. Parts of them may be unreadable: that may be why they are stuck."""

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError
from pydantic import BaseModel, TypeAdapter
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from outlast.activities.contracts import JsonObject
from outlast.activities.secrets.content_cipher import ContentDamaged

Model = TypeVar("Model", bound=BaseModel)

_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, DecodeError, ContentDamaged)
"""Exceptions for a payload that cannot be read later either."""
_OBJECT = TypeAdapter(JsonObject)


async def decoded(converter: DataConverter, payloads: Sequence[Payload], contract: type[Model]) -> Model | None:
    """The first value; None when there is none, or it is unreadable.

    Raises what may pass: `ContentKeyMissing`, and errors of the store of large payloads.
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
    """The input of the workflow."""
    return events[0].workflow_execution_started_event_attributes.input.payloads


def signals(events: Sequence[HistoryEvent], name: str) -> list[Sequence[Payload]]:
    """The arguments of each signal of that name, in order."""
    found = (event.workflow_execution_signaled_event_attributes for event in events)
    return [signal.input.payloads for signal in found if signal.signal_name == name]
