"""The parts of a tool as data: authority, client phase, approval, plain function."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar, overload

from pydantic import BaseModel, JsonValue, ValidationError

from outlast.activities.contracts import JsonObject, Violation
from outlast.activities.json_schema.violations import schema_violations
from outlast.workflows.contracts.questions import Audience
from outlast.workflows.tools.framework.frozen_json import FrozenObject

Answer = TypeVar("Answer")

DEFAULT_DEADLINE = timedelta(days=7)
DEFAULT_TIMEOUT = timedelta(minutes=5)
DEFAULT_BACKOFF = timedelta(seconds=1)
"""Pause before the second attempt. It doubles with each further one."""
MAX_VIOLATIONS = 50


class Authority(StrEnum):
    """The side that runs first. The server always decides last."""

    SERVER = "server"
    """The server phase decides; a client phase shows or collects something."""
    CLIENT = "client"
    """The client runs first; then the server validates its answer."""


@dataclass(frozen=True)
class Reply(Generic[Answer]):
    """The client's reply. `answer` is an instance of the phase's model, or a dict for a phase with a schema."""

    answer: Answer
    parameters: JsonObject
    """The parameters that the client got."""
    answered_by: str | None = None
    """Id of the caller who answered; None for the phase's default after the deadline."""


@dataclass(frozen=True)
class ClientPhase:
    """The client's part in a call: it gets parameters and gives an answer, which the server checks.

    Raises `ValueError` for a phase that cannot be answered.
    """

    name: str
    """Name of the phase, and key of its question."""
    message: str | Callable[[JsonObject], str]
    """Text for a person; a function makes it from the parameters."""
    answer: type[BaseModel] | Mapping[str, JsonValue]
    """Type of the answer: a pydantic model, or a JSON Schema of type object."""
    parameters: type[BaseModel] | None = None
    """Type of the parameters, to check them before the client gets them."""
    deadline: timedelta | None = None
    """Longest wait for an answer: by default a week, or ten minutes if the server has already answered."""
    default: BaseModel | Mapping[str, JsonValue] | None = None
    """Answer after the deadline. Without it the call fails, or has the server's answer only."""
    audience: Audience = "person"
    """`program`: a program that supports this phase answers, because no person could type the answer."""
    schema_json: str = field(init=False)

    def __post_init__(self) -> None:
        """Reject phases that cannot be answered."""
        object.__setattr__(self, "schema_json", json.dumps(_schema_of(self.answer), ensure_ascii=False))
        if not isinstance(self.answer, type):
            object.__setattr__(self, "answer", FrozenObject(self.answer))
        if self.default is not None:
            object.__setattr__(self, "default", FrozenObject(_plain(self.default)))
        if not self.name or not self.name.strip():
            raise ValueError("A client phase needs a name: ClientPhase(name='pick_colour', ...).")
        if self.schema.get("type") != "object":
            raise ValueError(
                f"Client phase {self.name!r}: the answer is an object. Write a pydantic model with a field for the "
                "value, or a JSON Schema with type: object."
            )
        if self.deadline is not None and self.deadline <= timedelta(0):
            raise ValueError(f"Client phase {self.name!r}: give a deadline longer than zero; days are fine.")
        if self.default is not None and self.violations(_plain(self.default)):
            raise ValueError(
                f"Client phase {self.name!r}: the default does not fit the answer's schema. Give one that does, or "
                "leave it out to have the call fail at the deadline."
            )

    @property
    def schema(self) -> JsonObject:
        """JSON Schema of the answer; a new object at each call."""
        return json.loads(self.schema_json)

    @property
    def default_content(self) -> JsonObject | None:
        """Default answer as JSON."""
        return None if self.default is None else _plain(self.default)

    def message_for(self, parameters: JsonObject) -> str:
        """Return the text for a person."""
        return self.message if isinstance(self.message, str) else self.message(parameters)

    def violations(self, content: JsonObject) -> tuple[Violation, ...]:
        """Return the violations in an answer."""
        if not isinstance(self.answer, type):
            return schema_violations(self.schema, content)
        try:
            self.answer.model_validate(content)
        except ValidationError as error:
            return violations_of(error)
        return ()

    def parse(self, content: JsonObject) -> Any:
        """Return the answer in the form for handlers. Raises `pydantic.ValidationError`."""
        return self.answer.model_validate(content) if isinstance(self.answer, type) else content

    def handed(self, given: BaseModel | Mapping[str, JsonValue]) -> JsonObject:
        """Return `given` as JSON for the client. Raises `pydantic.ValidationError`."""
        plain = _plain(given)
        return plain if self.parameters is None else _plain(self.parameters.model_validate(plain))


@dataclass(frozen=True)
class Approval:
    """An approval by a person before the tool runs."""

    when: Callable[[Any], bool] | None = None
    """Decides by the arguments whether a call needs approval; by default all do. Pure, like all workflow code."""
    message: str | Callable[[Any], str] | None = None
    """Text for a person; a function makes it from the arguments."""
    deadline: timedelta = DEFAULT_DEADLINE
    """Longest wait for an answer before the call fails."""

    def is_due(self, arguments: Any) -> bool:
        """Return whether a call with these arguments needs it."""
        return self.when is None or self.when(arguments)

    def message_for(self, arguments: Any) -> str | None:
        """Return the text for a person; None for the default text."""
        return self.message(arguments) if callable(self.message) else self.message


@dataclass(frozen=True)
class PlainFunction:
    """A plain async function that runs as one activity, so that it may read files, the clock and the network."""

    function: Callable[..., Awaitable[Any]]
    timeout: timedelta = DEFAULT_TIMEOUT
    """Longest duration of one attempt."""
    attempts: int = 3
    """Most attempts, if its worker dies or it fails with a retryable error. 1 means no retry."""

    backoff: timedelta = DEFAULT_BACKOFF
    """Pause before the second attempt."""
    retry_on: tuple[type[Exception], ...] = ()
    """Exceptions that are retried besides temporary failures."""
    no_retry_on: tuple[type[Exception], ...] = ()
    """Exceptions that are never retried. They take precedence."""
    has_thread: bool = False
    """Whether a thread runs its code: `function` only waits for it."""

    def __post_init__(self) -> None:
        """Check the limits."""
        name = getattr(self.function, "__name__", "it")
        if not inspect.iscoroutinefunction(self.function):
            raise ValueError(f"@plain takes an async function: write `async def {name}(args)`.")
        if self.timeout <= timedelta(0) or self.attempts < 1:
            raise ValueError(f"@plain on {name}: give a timeout longer than zero and one attempt or more.")

    @property
    def takes_context(self) -> bool:
        """True if the function has the keyword parameter `context`, for a `ToolContext`."""
        parameter = inspect.signature(self.function).parameters.get("context")
        return parameter is not None and parameter.kind is inspect.Parameter.KEYWORD_ONLY

    async def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function itself, for tests of it."""
        return await self.function(*arguments, **keywords)


@overload
def plain(function: Callable[..., Awaitable[Any]], /) -> PlainFunction: ...
@overload
def plain(
    *, timeout: timedelta = DEFAULT_TIMEOUT, attempts: int = 3
) -> Callable[[Callable[..., Awaitable[Any]]], PlainFunction]: ...
def plain(
    function: Callable[..., Awaitable[Any]] | None = None, /, *, timeout: timedelta = DEFAULT_TIMEOUT, attempts: int = 3
) -> PlainFunction | Callable[[Callable[..., Awaitable[Any]]], PlainFunction]:
    """Make an async function a step of a tool: `@plain`, or `@plain(timeout=timedelta(minutes=20), attempts=1)`.

    It takes the arguments (and, after a client phase, the `Reply`) and returns text, a pydantic model, a dict or a
    `ToolResult`. With a keyword parameter `context` (`async def f(args, *, context: ToolContext)`) it gets the ids of
    task, caller and session, and can report progress. It is cancelled with its call, and may run again if its worker
    dies.
    """
    if function is not None:
        return PlainFunction(function)
    return lambda decorated: PlainFunction(decorated, timeout, attempts)


def violations_of(error: ValidationError) -> tuple[Violation, ...]:
    """Return the first 50 violations that pydantic found, with JSON Pointers."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple(Violation.at(entry["loc"], entry["msg"]) for entry in found[:MAX_VIOLATIONS])


def _schema_of(answer: type[BaseModel] | Mapping[str, JsonValue]) -> JsonObject:
    return answer.model_json_schema(by_alias=True) if isinstance(answer, type) else dict(answer)


def _plain(value: BaseModel | Mapping[str, JsonValue]) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else dict(value)
