"""Fields that a model does not have: each is refused by its name, with the nearest one that there is.

A misspelt limit that is passed over costs money. Models that histories hold pass over what a newer version added, so
these are refused where they are part of a request, at any depth.
"""

import difflib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Optional, Self, Union, cast, get_args, get_origin

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from outlast.activities.bounds import MAX_COUNT, UsdFloat, checking_bounds
from outlast.contracts.options import Option

# The name is another's in workflow code, whose commands are compared by name.
from outlast.contracts.options import options_of as declared_by
from outlast.suggestions import suggested

MAX_REPORTED: Final = 20
MAX_LISTED: Final = 200
MAX_NAME_CHARS: Final = 100
Place = tuple[str | int, ...]
Found = Iterator[tuple[Place, str]]
Look = Callable[[object, Place], Found]


class KnownFieldsOnly(BaseModel):
    """A model of what a caller sends: an unknown field, in it or in any model inside it, is a violation.

    So is a number out of bounds, see `activities.bounds`.
    """

    @classmethod
    def _bounds(cls) -> AbstractContextManager[None]:
        return checking_bounds()

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_unknown_fields(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        unknown = dict(islice(unknown_fields(cls, data), MAX_REPORTED))
        if not unknown:
            with _countable_errors(), cls._bounds():
                return handler(data)
        errors = [_error(place, message) for place, message in unknown.items()]
        try:
            with _countable_errors(), cls._bounds():
                handler(_known_part(cls, cast(Mapping[str, object], data)))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            errors += [_error(one["loc"], one["msg"], one["type"]) for one in found if one["loc"] not in unknown]
        except PydanticCustomError as error:
            errors.append(_error((), error.message()))
        raise ValidationError.from_exception_data(cls.__name__, errors)


def unknown_fields(model: type[BaseModel], value: object, place: Place = ()) -> Found:
    """The places in `value` of fields that `model`, or a model inside it, does not have; and what to say of each."""
    if not isinstance(value, Mapping):
        return
    fields = _fields_by_name(model)
    for name, part in cast("Mapping[str, object]", value).items():
        if name in fields:
            if (look := fields[name]) is not None:
                yield from look(part, (*place, name))
        elif model.model_config.get("extra") != "allow":
            yield (*place, name[:MAX_NAME_CHARS]), unknown_name("field", name, fields)


@contextmanager
def _countable_errors() -> Generator[None]:
    """Replace very many violations by one: to list them all takes seconds, and nobody reads them."""
    try:
        yield
    except ValidationError as error:
        count = error.error_count()
        if count <= MAX_LISTED:
            raise
        message = f"It breaks its schema in {count} places, too many to list; is it what you meant to send?"
        raise PydanticCustomError("too_many_violations", cast(Any, message)) from None


def _known_part(model: type[BaseModel], value: Mapping[str, object]) -> dict[str, object]:
    known = _fields_by_name(model)
    return {name: part for name, part in value.items() if name in known}


@lru_cache(maxsize=256)
def _fields_by_name(model: type[BaseModel]) -> dict[str, Look | None]:
    """Readers of each field by each name under which it is read; None if it cannot contain a model."""
    found: dict[str, Look | None] = {}
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        aliases = [str(one) for one in alias.choices] if isinstance(alias, AliasChoices) else [alias] if alias else []
        for given in (*aliases, *([name] if by_name or not aliases else [])):
            found[str(given)] = _look(field.annotation)
    return found


def _look(annotation: object) -> Look | None:
    """Return a function that finds unknown fields in a value of this type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        model = _model_of(annotation)
        return partial(unknown_fields, model) if model is not None else None
    if origin is Annotated:
        return _look(arguments[0])
    if origin in (Union, UnionType):
        return _look_into_union(arguments)
    inner = _look(arguments[-1] if arguments and arguments[-1] is not ... else arguments[0]) if arguments else None
    if inner is None:
        return None
    is_mapping = isinstance(origin, type) and issubclass(cast(type[object], origin), Mapping)
    return partial(_in_mapping if is_mapping else _in_sequence, inner)


def _in_mapping(look: Look, value: object, place: Place) -> Found:
    if isinstance(value, Mapping):
        for name, part in cast("Mapping[str, object]", value).items():
            yield from look(part, (*place, name))


def _in_sequence(look: Look, value: object, place: Place) -> Found:
    if isinstance(value, list | tuple):
        for index, part in enumerate(cast("Sequence[object]", value)):
            yield from look(part, (*place, index))


def _look_into_union(members: tuple[object, ...]) -> Look | None:
    """For an object, the only model, or the one of its `type`; for anything else, each member that may hold models."""
    models = [model for one in members if (model := _model_of(one)) is not None]
    others = [inner for one in members if _model_of(one) is None and (inner := _look(one)) is not None]
    kinds = {kind: model for model in models for kind in _kinds(model)}
    if not models and not others:
        return None

    def look(value: object, place: Place) -> Found:
        if isinstance(value, Mapping) and models:
            kind = cast("Mapping[str, object]", value).get("type")
            chosen = models[0] if len(models) == 1 else kinds.get(kind) if isinstance(kind, str) else None
            if chosen is not None:
                yield from unknown_fields(chosen, cast(object, value), place)
            return
        for other in others:
            yield from other(cast(object, value), place)

    return look


def _model_of(annotation: object) -> type[BaseModel] | None:
    if get_origin(annotation) is Annotated:
        return _model_of(get_args(annotation)[0])
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _kinds(model: type[BaseModel]) -> tuple[object, ...]:
    field = model.model_fields.get("type")
    return get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()


def unknown_name(kind: str, name: str, known: Collection[str]) -> str:
    """Says of a field or parameter that there is none of this name, and which one may be meant."""
    near = difflib.get_close_matches(name[:MAX_NAME_CHARS], known, n=1, cutoff=0.5)
    shown = name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"
    hint = f"did you mean {near[0]!r}?" if near else f"known are {suggested(sorted(known)) or 'none'}."
    return f"Unknown {kind} {shown!r}: {hint}"


def _error(place: Place, message: str, kind: str = "extra_forbidden") -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(cast(Any, kind), cast(Any, message)), loc=place, input=None)


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
