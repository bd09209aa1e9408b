"""`@tool`: makes a tool of a typed function. Name, texts and schemas come from its signature and docstring."""

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_origin,
    get_type_hints,
    overload,
)

from docstring_parser import Docstring, ParseError, parse
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from outlast.activities.bounds import Usd
from outlast.activities.tool_secrets import check_secret_names
from outlast.suggestions import suggested
from outlast.workflows.contracts.tool_calls import Age, ToolResult
from outlast.workflows.contracts.written_json import UnusableAnswer, not_json
from outlast.workflows.tools.framework.phases import DEFAULT_BACKOFF, DEFAULT_TIMEOUT, PlainFunction
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.threads import in_thread
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, ToolBuilder
from outlast.workflows.tools.framework.tool_context import SyncToolContext, ToolContext

P = ParamSpec("P")
R = TypeVar("R")
OlderFunction = TypeVar("OlderFunction", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DONE = "Done."
"""Answer of a function that returns None."""
_AS_THEY_ARE = (Any, str, None, type(None), ToolResult, inspect.Signature.empty)
"""Return annotations without an output schema."""


FUNCTION_LINES: dict[tuple[str, str], set[int]] = {}
"""Lines at which a module has defined functions under `@tool`, by module and name. A later one hides an earlier one."""


class FunctionTool(Generic[P, R]):
    """A function under `@tool`. Calling it calls the function, as its own tests do; `definition` is the tool."""

    def __init__(self, function: Callable[P, R], definition: Tool, options: "ToolOptions | None" = None) -> None:
        functools.update_wrapper(self, function)
        self._options = ToolOptions() if options is None else options
        if (code := getattr(function, "__code__", None)) is not None:
            FUNCTION_LINES.setdefault((function.__module__, function.__qualname__), set()).add(code.co_firstlineno)
        self.function = function
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def version(self, number: int) -> Callable[[OlderFunction], OlderFunction]:
        """Keep the function below as version `number`, for open calls that were made with it: `@weather.version(1)`.

        It has the options of the tool, and its own parameters and return type. Raises `ValueError`.
        """
        name = self.function.__name__
        newest, kept = self.definition.version, [one.version for one in self.definition.older_versions]
        _check_version(number)
        if number >= newest or number in kept:
            taken = ", ".join(map(str, sorted([*kept, newest])))
            raise ValueError(
                f"@{name}.version({number}): an older version has a number below {newest} that is not taken "
                f"(versions so far: {taken}). The newest one is @tool(version=...)."
            )

        def keep(function: OlderFunction) -> OlderFunction:
            if function.__name__ == name and function.__qualname__ == self.function.__qualname__:
                raise ValueError(
                    f"@{name}.version({number}): the function needs another name than the newest one, which "
                    f"it would hide: write `def {name}_{number}(...)`."
                )
            options: ToolOptions = {**self._options, "name": self.definition.name, "version": number}
            older = function_tool(function, **options).definition
            versions = (*self.definition.older_versions, older)
            self.definition = replace(self.definition, older_versions=versions)
            return function

        return keep

    def written(self, value: Any) -> ToolResult:
        """Return the tool's answer for a value that the function returns. Raises `UnusableAnswer`."""
        output = _Output.of(get_type_hints(self.function).get("return", Any), self.definition.name)
        return as_result(output.written(value) if output is not None else _DONE if value is None else value)

    def read(self, result: ToolResult) -> Any:
        """Return an answer of the tool in the function's return type. Raises `pydantic.ValidationError`."""
        annotation = get_type_hints(self.function, include_extras=True).get("return", Any)
        if annotation is ToolResult:
            return result
        if annotation is None or annotation is type(None):
            return None
        output = _Output.of(annotation, self.definition.name)
        if output is not None:
            return output.read(result.structured)
        return result.text if annotation is str or result.structured is None else result.structured


class ToolOptions(TypedDict, total=False):
    """Options of `@tool`. All have defaults."""

    name: str
    """Name for models: letters, digits, `_` and `-`. Default: the function's."""
    title: str
    """Name for people. Default: the name."""
    description: str
    """Text by which a model chooses the tool. Default: the docstring without its list of arguments."""
    category: Category
    """Group by which connections select tools. Default: `dev`."""
    retries: int
    """Further attempts after a temporary failure or the death of a worker. Default: 2."""
    timeout: timedelta | float
    """Time of one attempt, in seconds or as a time span. Default: five minutes."""
    backoff: timedelta | float
    """Pause before the second attempt; it doubles with each further one. Default: one second."""
    retry_on: tuple[type[Exception], ...]
    """Exceptions that are retried besides temporary failures."""
    no_retry_on: tuple[type[Exception], ...]
    """Exceptions that are never retried."""
    read_only: bool
    """Hint for clients: the tool changes nothing."""
    destructive: bool
    """Hint for clients: the tool may delete or overwrite."""
    idempotent: bool
    """Hint for clients: a repeated call has no further effect."""
    budget_usd: Decimal | float | str
    """Maximum cost of one call in US dollars. A lower `max_usd` of the caller takes precedence."""
    reuse: str | int
    """Calls without the option `reuse` get the answer of an identical call not older than this: `10m`, or seconds. For
    tools that are `read_only` and have no approval."""
    tags: Sequence[str]
    """Further groups by which connections select tools, as `tag:billing`: letters, digits, `_` and `-`."""
    secrets: Sequence[str]
    """Names of the secrets that the function reads with `ctx.secret(name)`: environment variables of the worker."""
    version: int
    """Number of this version of the tool: 1, 2, ... `@weather.version(1)` keeps an older one. Default: 1."""
    approval: bool | str | Callable[[Any], bool]
    """True: each call waits for an approval. A text: the question. A function of the arguments: if it returns true."""


@overload
def tool(name: str, /) -> ToolBuilder: ...
@overload
def tool(name: str, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(target: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(retries=5)`. `tool("name")` begins the definition of another kind.

    Raises `ValueError` for a function that cannot be a tool.
    """
    if isinstance(target, str) and not options:
        return ToolBuilder(target)
    if isinstance(target, str):
        options["name"] = target
    elif target is not None:
        return function_tool(target, **options)

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return function_tool(function, **options)

    return decorate


def function_tool(function: Callable[P, R], **options: Unpack[ToolOptions]) -> FunctionTool[P, R]:
    """Make a tool of `function`, as `@tool` does."""
    unknown = [name for name in options if name not in ToolOptions.__annotations__]
    if unknown:
        known = suggested(ToolOptions.__annotations__, unknown[0])
        raise TypeError(f"@tool has no option {unknown[0]!r}; it has: {known}.")
    _check_numbers(options)
    call_name = options.get("name") or getattr(function, "__name__", "")
    check_name(call_name)
    signature = _Signature(function, call_name)
    texts = _docstring_of(function)
    plain = PlainFunction(
        signature.as_async(),
        _time_span(options.get("timeout", DEFAULT_TIMEOUT)),
        options.get("retries", 2) + 1,
        backoff=_time_span(options.get("backoff", DEFAULT_BACKOFF)),
        retry_on=options.get("retry_on", ()),
        no_retry_on=options.get("no_retry_on", ()),
        has_thread=not inspect.iscoroutinefunction(function),
    )
    annotations = ToolAnnotations(
        title=options.get("title") or call_name,
        read_only=options.get("read_only", False),
        destructive=options.get("destructive", False),
        idempotent=options.get("idempotent", False),
    )
    builder = (
        ToolBuilder(call_name)
        .category(options.get("category", Category.DEV))
        .describe(options.get("description") or _description(texts) or call_name.replace("_", " "))
        .annotate(annotations)
        .args(signature.arguments_model(texts))
        .server(plain)
    )
    if signature.output is not None:
        builder.output_schema(signature.output.schema)
    approval = options.get("approval", False)
    if isinstance(approval, str):
        builder.approval(message=approval)
    elif approval:
        builder.approval(when=approval if callable(approval) else None)
    version = options.get("version", 1)
    _check_version(version)
    secrets = check_secret_names(options.get("secrets", ()))
    made = replace(builder.build(), version=version, budget_usd=_budget(options), reuse=_age(options))
    return FunctionTool(function, replace(made, secrets=secrets, tags=_tags(options)), options)


def _budget(options: ToolOptions) -> Decimal | None:
    """Return the option `budget_usd`. Raises `ValueError` for an amount that no call can have as its limit."""
    given = options.get("budget_usd")
    if given is None:
        return None
    try:
        return TypeAdapter[Decimal](Usd).validate_python(str(given))
    except ValidationError as error:
        reason = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        raise ValueError(f"@tool: budget_usd={given!r} is not an amount in US dollars: {reason}.") from None


def _tags(options: ToolOptions) -> tuple[str, ...]:
    """Return the option `tags`, each once. Raises `TypeError` and `ValueError` for anything else than names."""
    given: object = options.get("tags", ())
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"@tool: tags={given!r} is not a list of tags: write tags=['billing'].")
    tags = tuple(cast(Iterable[object], given))
    for tag in tags:
        if not isinstance(tag, str) or _NAME.fullmatch(tag) is None:
            raise ValueError(f"@tool: {tag!r} in tags= is not a tag: it has 1 to 64 letters, digits, `_` or `-`.")
    return tuple(dict.fromkeys(cast(tuple[str, ...], tags)))


def _age(options: ToolOptions) -> str | None:
    """Return the option `reuse` as an age. Raises `ValueError` for an invalid one, and for a tool with effects."""
    given = options.get("reuse")
    if given is None:
        return None
    try:
        age = TypeAdapter[str](Age).validate_python(given)
    except ValidationError:
        raise ValueError(f"@tool: reuse={given!r} is not an age: write '90s', '10m', '6h', '7d', or seconds.") from None
    if not options.get("read_only") or options.get("approval"):
        raise ValueError(
            "@tool: reuse= is for tools that only read: add read_only=True, and leave approval= out. The answer of "
            "another call would not have done what a call does."
        )
    return age


def _check_version(number: object) -> None:
    """Raise `ValueError` for a version that is not 1, 2, ..."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"@tool: version={number!r} is not the number of a version: write 1, 2, ...")


def _check_numbers(options: ToolOptions) -> None:
    """Raise `ValueError` for options of attempts that are no numbers or too small."""
    retries = options.get("retries", 0)
    if not isinstance(retries, int) or retries < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # authors may err
        raise ValueError(f"@tool: retries={retries!r} is not a number of further attempts: write 0, 1, 2, ...")
    for name in ("timeout", "backoff"):
        given: object = options.get(name, 1)
        seconds = given.total_seconds() if isinstance(given, timedelta) else given
        if not isinstance(seconds, int | float) or seconds <= 0:
            raise ValueError(f"@tool: {name}={given!r} is not a time: write seconds above 0, or a timedelta.")


def check_name(name: str) -> None:
    """Raise `ValueError` for the name of a tool that models or MCP clients do not take."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"Tool {name!r}: a name has 1 to 64 letters, digits, `_` or `-`. Choose another one.")


class _Signature:
    """The parameters and the return value of a function, checked for what a tool can take."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"@tool takes a function, not {function!r}. Write it directly above `def`.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ValueError(f"@tool on {name}: a tool answers once, and cannot `yield`. Return a list.")
        try:
            self._types = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise ValueError(f"@tool on {name}: {error}; define or import it before the function.") from None
        parameters = list(inspect.signature(function).parameters.values())
        contexts = (ToolContext, SyncToolContext)
        self._context = next((one.name for one in parameters if self._types.get(one.name) in contexts), None)
        self._is_async = inspect.iscoroutinefunction(function)
        if self._is_async and self._context is not None and self._types[self._context] is SyncToolContext:
            raise ValueError(f"@tool on {name}: SyncToolContext is for functions without `async`: write ToolContext.")
        self._parameters = [one for one in parameters if one.name != self._context]
        for parameter in self._parameters:
            self._check(parameter)
        self._model = self._single_model()
        self.output = _Output.of(self._types.get("return", inspect.Signature.empty), name)

    def _check(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ValueError(
                f"@tool on {self._name}: parameter {str(parameter)!r} cannot be passed by name. Models pass arguments "
                "by name: write each parameter with its name, without *, ** or /."
            )
        if parameter.name in ("self", "cls") and parameter.name not in self._types:
            raise ValueError(f"@tool on {self._name}: a method cannot be a tool. Move the function out of its class.")
        if parameter.name not in self._types:
            raise ValueError(
                f"@tool on {self._name}: parameter {parameter.name!r} has no type. Write `{parameter.name}: str`, or "
                "another type: the schema for models comes from it."
            )
        if parameter.name.startswith("_") or parameter.name == "model_config":
            raise ValueError(
                f"@tool on {self._name}: rename parameter {parameter.name!r}: pydantic reserves this name."
            )

    def _single_model(self) -> type[BaseModel] | None:
        """The pydantic model that is the only parameter, and therefore the arguments as a whole."""
        if len(self._parameters) != 1:
            return None
        kind = self._types[self._parameters[0].name]
        return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None

    def arguments_model(self, texts: Docstring) -> type[BaseModel]:
        """The model of the arguments. It refuses unknown names."""
        if self._model is not None:
            return self._model
        described = {param.arg_name: param.description or "" for param in texts.params}
        fields: dict[str, Any] = {
            one.name: self._field(one, described.get(one.name.removeprefix("*"), "")) for one in self._parameters
        }
        try:
            return create_model(f"{_camel(self._name)}Arguments", __base__=Arguments, **fields)
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ValueError(f"@tool on {self._name}: {str(error).splitlines()[0]}") from None

    def _field(self, parameter: inspect.Parameter, text: str) -> tuple[Any, Any]:
        kind: Any = self._types[parameter.name]
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        has_text = get_origin(kind) is Annotated and FieldInfo.from_annotation(kind).description
        has_text = has_text or (isinstance(default, FieldInfo) and default.description)
        return (kind if has_text or not text else Annotated[kind, Field(description=text)]), default

    def as_async(self) -> Callable[..., Any]:
        """The function as a plain function of (arguments, *, context)."""

        async def run(arguments: Any) -> Any:
            return await self._called(self._given(arguments))

        async def run_with_context(arguments: Any, *, context: ToolContext) -> Any:
            given = context if self._is_async else SyncToolContext.of(context)
            return await self._called({**self._given(arguments), str(self._context): given})

        function = run if self._context is None else run_with_context
        function.__name__ = self._name
        return function

    async def _called(self, arguments: dict[str, Any]) -> Any:
        if self._is_async:
            value = await self._function(**arguments)
        else:
            value = await in_thread(self._name, functools.partial(self._function, **arguments))
        if inspect.iscoroutine(value):
            value.close()
            raise UnusableAnswer(
                f"The tool returned a coroutine that did not run: write `await {value.__name__}(...)` in `async def`."
            )
        if self.output is not None:
            return self.output.written(value)
        return _DONE if value is None else value

    def _given(self, arguments: Any) -> dict[str, Any]:
        if self._model is not None:
            return {self._parameters[0].name: arguments}
        return {one.name: getattr(arguments, one.name) for one in self._parameters}


class _Output:
    """The declared return value: its schema, and how a value is written. Other types than objects become `result`."""

    def __init__(self, adapter: TypeAdapter[Any], name: str) -> None:
        self._adapter = adapter
        self._name = name
        own = cast(dict[str, JsonValue], adapter.json_schema(mode="serialization"))
        self._is_object = own.get("type") == "object"
        definitions = own.pop("$defs", None)
        wrapped: dict[str, JsonValue] = {
            "type": "object", "properties": {"result": own}, "required": ["result"],
        }  # fmt: skip
        self.schema: dict[str, JsonValue] = own if self._is_object else wrapped
        if definitions is not None:
            self.schema["$defs"] = definitions

    @classmethod
    def of(cls, annotation: Any, name: str) -> "_Output | None":
        """The output of this return annotation; None without a schema. Raises `ValueError`."""
        if annotation in _AS_THEY_ARE:
            return None
        try:
            return cls(TypeAdapter(annotation), name)
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ValueError(
                f"@tool on {name}: the return type has no JSON Schema: {str(error).splitlines()[0]}"
            ) from None

    def read(self, structured: Any) -> Any:
        """The value from the answer's structured form. Raises `pydantic.ValidationError`."""
        fields = cast("dict[str, Any]", structured if isinstance(structured, dict) else {})
        value = structured if self._is_object else fields.get("result")
        return self._adapter.validate_json(json.dumps(value))

    def written(self, value: Any) -> Any:
        """The value as JSON. Raises `UnusableAnswer` for one that is not of the declared type."""
        if isinstance(value, ToolResult):
            return value
        try:
            checked = self._adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UnusableAnswer(
                f"The tool returned {type(value).__name__}, which does not fit its return annotation: "
                f"{f'{place}: ' if place else ''}{first['msg']}."
            ) from None
        try:
            written = self._adapter.dump_python(checked, mode="json", by_alias=True)
        except PydanticSerializationError as error:
            raise not_json(checked, error) from None
        return written if self._is_object else {"result": written}


def _docstring_of(function: Callable[..., Any]) -> Docstring:
    """The parsed docstring: Google, NumPy, Sphinx or Epydoc style."""
    try:
        return parse(inspect.getdoc(function) or "")
    except ParseError:
        return Docstring()


def _description(texts: Docstring) -> str:
    parts = (texts.short_description, texts.long_description)
    return "\n\n".join(part for part in parts if part)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def _time_span(given: timedelta | float) -> timedelta:
    return given if isinstance(given, timedelta) else timedelta(seconds=given)
