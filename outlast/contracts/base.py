"""The base of responses, built by the server and read by clients of any other version; and problem documents."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from outlast.activities.contracts import OPEN, Contract, ErrorEnvelope, Violation

T = TypeVar("T")

Open = Annotated[T | str, OPEN]
"""`Open[Status]`: one of the known values, or the text of one that a newer server has added."""

ALL_CALLERS = "*"
CallerName = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="Instead of your own: those of the caller with this id, or `*` for all callers. Needs `admin`.",
    ),
]
"""Parameter of lists that a key with the scope `admin` may read for other callers."""

_SENT = "x-sent"


def absent(value: Any) -> Any:
    """Annotates a field that the server always sends: clients read `value` where an older server leaves it out."""
    return Field(default=value, json_schema_extra={_SENT: True})


def _as_sent(schema: dict[str, Any]) -> None:
    """Document a response as the server sends it: with all fields of `absent`, and without others."""
    schema.pop("additionalProperties", None)
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    always = {name for name, field in properties.items() if field.pop(_SENT, False)}
    for name in always:
        properties[name].pop("default", None)
    if required := [name for name in properties if name in always or name in schema.get("required", ())]:
        schema["required"] = required


class Response(Contract):
    """A response of the server. Fields that a newer server has added are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, json_schema_extra=_as_sent)


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


MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """RFC 9457 problem details. `error` is present when a tool call was refused."""

    type: str = Field(description="Stable identifier of the kind of problem.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do.")
    instance: str | None = Field(default=None, description="Path of the request.")
    error: ErrorEnvelope | None = None
    violations: list[Violation] | None = None
