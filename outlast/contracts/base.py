"""The base of responses: built by the server, and read by clients of any other version."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from outlast.activities.contracts import OPEN, Contract

T = TypeVar("T")

Open = Annotated[T | str, OPEN]
"""`Open[Status]`: one of the known values, or the text of one that a newer server has added."""


def _closed(schema: dict[str, Any]) -> None:
    """Leave out of the documentation that a response may have more fields."""
    schema.pop("additionalProperties", None)


class Response(Contract):
    """A response of the server. Fields that a newer server has added are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, json_schema_extra=_closed)


class MadeOf:
    """Annotates a field that the server makes of `model`, which documents it, and that clients read as `read`."""

    def __init__(self, model: type[BaseModel], *, read: Any) -> None:
        """Take instances of `model` as they are, and validate everything else as `read`."""
        self._model = model
        self._read = read

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        read: TypeAdapter[Any] = TypeAdapter(self._read)

        def made_or_read(value: object, _known: ValidatorFunctionWrapHandler) -> Any:
            return value if isinstance(value, self._model) else read.validate_python(value, extra="allow")

        known = handler.generate_schema(self._model)
        as_it_is = core_schema.simple_ser_schema("any")
        return core_schema.no_info_wrap_validator_function(made_or_read, known, serialization=as_it_is)
