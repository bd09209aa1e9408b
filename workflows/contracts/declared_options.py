"""Pydantic types of the options that `outlast.contracts.options` declares, for tools' arguments and MCP's `_meta`."""

from collections.abc import Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Optional, Union, get_args, get_origin

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, JsonValue, create_model
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from outlast.activities.bounds import MAX_COUNT, UsdFloat
from outlast.contracts.options import Option

# The name is another's in workflow code, whose commands are compared by name.
from outlast.contracts.options import options_of as declared_by
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly

MAX_TEXT_CHARS = 200


class _Options(KnownFieldsOnly):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DeclaredOptions:
    """Annotation of a `dict[str, Any]` field that holds options by name, with their declared types, texts and bounds.

    The value has the options that were given and are not None. An unknown name is a violation.
    """

    def __init__(self, *kinds: type, leave_out: Collection[str] = (), for_models: bool = False) -> None:
        """Take the options of `kinds`, which are dictionaries of `outlast.contracts.options`, without `leave_out`.

        With `for_models`, only those that a model may choose.
        """
        fields: dict[str, Any] = {
            name: _field(name, get_args(kind.__annotations__[name])[0], option)
            for kind in kinds
            for name, option in declared_by(kind).items()
            if name not in leave_out and (option.for_models or not for_models)
        }
        self._model = create_model("Options", __base__=_Options, **fields)

    @property
    def names(self) -> frozenset[str]:
        """The names of the options."""
        return frozenset(self._model.model_fields)

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate as the model of the options, and give a dictionary."""
        return no_info_after_validator_function(_given, handler.generate_schema(self._model))


def _bounded(annotation: Any) -> Any:
    """The type with a maximum length for every text, as all texts that callers and models send have one."""
    if annotation is str:
        return Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return Union[tuple(map(_bounded, parts))]  # noqa: UP007 (of a tuple)
    if origin is Sequence:
        return list[_bounded(parts[0])]
    return dict[parts[0], _bounded(parts[1])] if origin is Mapping else annotation


def _field(name: str, annotation: Any, option: Option) -> tuple[Any, Any]:
    """Type and field of an option. Money is `UsdFloat`; every other number has a maximum, that of counts by default."""
    if name.endswith("_usd"):
        return Optional[UsdFloat], Field(default=None, description=option.help)  # noqa: UP045 (a value)
    is_number = bool(get_args(annotation)) and {*get_args(annotation)} <= {int, float, NoneType}
    most = MAX_COUNT if is_number and option.max is None else option.max
    return _bounded(annotation), Field(default=None, description=option.help, ge=option.min, le=most)


def _given(options: _Options) -> dict[str, JsonValue]:
    given = {name: getattr(options, name) for name in options.model_fields_set}
    return {name: value for name, value in given.items() if value is not None}
