"""How values are written into histories: JSON by pydantic, without what says nothing."""

import dataclasses
from typing import Any

from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import CompositePayloadConverter, DefaultPayloadConverter, JSONPlainPayloadConverter


class LeanJSONPayloadConverter(PydanticJSONPlainPayloadConverter):
    """Leaves fields that are None out of models: a tenth of the history of an Actor call.

    Every optional field of a contract has None as its default, so reading gives the same value back. Nulls in data
    that is not ours (an Actor's input, rows) are kept.
    """

    def to_payload(self, value: Any) -> Payload | None:
        """Write `value` as JSON."""
        return Payload(metadata={"encoding": self.encoding.encode()}, data=to_json(value, exclude_none=True))


class LeanPayloadConverter(CompositePayloadConverter):
    """The SDK's converters, with JSON as `LeanJSONPayloadConverter` writes it."""

    def __init__(self) -> None:
        """Nothing to configure."""
        lean = LeanJSONPayloadConverter()
        converters = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(lean if isinstance(one, JSONPlainPayloadConverter) else one for one in converters))


lean_data_converter = dataclasses.replace(pydantic_data_converter, payload_converter_class=LeanPayloadConverter)
"""What clients, workers and replayers of Outlast share."""
