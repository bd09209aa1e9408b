"""Failures as Temporal describes them, readable also where their texts are encrypted."""

from pydantic import BaseModel
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter


class _Attributes(BaseModel):
    message: str = ""


async def readable(failure: Failure, converter: DataConverter) -> Failure:
    """The failure with its own message, where that is an encoded attribute (with encryption, it is)."""
    if not failure.HasField("encoded_attributes"):
        return failure
    [attributes] = await converter.decode([failure.encoded_attributes], [_Attributes])
    readable = Failure()
    readable.CopyFrom(failure)
    readable.message = attributes.message
    return readable
