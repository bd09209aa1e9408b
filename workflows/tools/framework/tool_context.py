"""The context of a tool's function: the call, its progress, and durable steps and waits."""

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, JsonValue, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.tool_secrets import ToolSecrets
from outlast.workflows.contracts.steps import CallOutcome, StepEntry, Wait, WaitKind, WaitOutcome
from outlast.workflows.contracts.tool_calls import Progress, ToolResult
from outlast.workflows.contracts.written_json import UnusableAnswer, as_json
from outlast.workflows.tools.framework.journal import MAX_STEP_BYTES, Journal, Operation, digest_of, name_of
from outlast.workflows.tools.framework.phases import DEFAULT_DEADLINE
from outlast.workflows.tools.framework.threads import in_thread

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Arguments = Mapping[str, Any] | None
MAX_PROGRESS_CHARS = 500
MAX_NAMED_VIOLATIONS = 3
MAX_MESSAGE_CHARS = 2_000
Toolbox = Callable[[frozenset[str]], Coroutine[Any, Any, Sequence[Any]]]
STUBS: ContextVar[Mapping[str, Callable[[], Any]]] = ContextVar("STUBS", default=MappingProxyType({}))
"""What tests run instead of steps, by the names of their functions."""
CALLED: ContextVar[dict[str, Any] | None] = ContextVar("CALLED", default=None)
"""Functions that were called in a test, by the names of their tools."""
_ANSWER = "answer"
_NO_STEPS = "This call of the function is no task: only steps work here. Call it with outlast.testing."
_logger = logging.getLogger("outlast.tools")


def _ignore(_progress: Progress) -> None:
    """Ignore progress of functions that are called without a task, as in tests."""


@dataclass(frozen=True)
class Approved:
    """An approval that was granted."""

    by: str | None = None
    """Id of the caller who granted it."""
    note: str | None = None


class NotApproved(ToolFailure):
    """Nobody granted the approval: it was refused, or its time was over. Uncaught, it becomes the call's answer."""


class CallFailed(ToolFailure):
    """A call of another tool has failed. Uncaught, its error becomes this call's answer."""

    def __init__(self, envelope: ErrorEnvelope, task_id: str | None = None) -> None:
        super().__init__(envelope)
        self.task_id = task_id
        """Id of the call's task; None if it was not started."""


class CalledFunction(Protocol[R_co]):
    """A function under `@tool`, which returns `R_co` when it is called."""

    definition: Any
    """The tool."""

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        """Call the function itself."""
        ...

    def read(self, result: ToolResult) -> Any:
        """Return an answer of the tool in the function's return type. Raises `pydantic.ValidationError`."""
        ...


class NotAnswered(ToolFailure):
    """Nobody answered the question. Uncaught, it becomes the call's answer."""


@dataclass(frozen=True)
class _Call:
    task_id: str
    caller_id: str
    """ID of the caller, for example `key:ann`. It contains no secret."""
    session_id: str | None = None
    """Conversation of the call, if any."""
    attempt: int = 1
    """Number of the attempt: above 1 after a retryable failure, or after the death of a worker."""
    report: Callable[[Progress], None] = _ignore
    """Receiver of `progress`."""
    journal: Journal = field(default_factory=Journal, repr=False, compare=False)
    secrets: ToolSecrets = field(default_factory=ToolSecrets, repr=False, compare=False)
    toolbox: Toolbox | None = field(default=None, repr=False, compare=False)
    """Finds tools for programs, by words that may be names of their functions."""

    def secret(self, name: str) -> SecretStr:
        """Return a secret that the tool declares: `@tool(secrets=["STRIPE_KEY"])`. `.get_secret_value()` is its text.

        The text is replaced by `[secret STRIPE_KEY]` in all that the function hands to Outlast. Raises `ValueError` for
        a secret that is not declared.
        """
        return self.secrets.value(name)

    def progress(self, done: float, *, total: float | None = None, message: str = "") -> None:
        """Show the caller the progress of the function, in any unit; the message in at most 500 characters.

        Call it as often as you like: only the latest progress is sent, once per `OUTLAST_PROGRESS_SECONDS`. It adds
        nothing to the task's history.
        """
        self.report(Progress(done=done, total=total, message=self.secrets.hide(message)[:MAX_PROGRESS_CHARS]))

    def log(self, message: str, **fields: Any) -> None:
        """Write a line to the worker's log, with the task's id, the caller's and `fields`."""
        given = {"fields": self.secrets.hide_in(fields)} if fields else {}
        _logger.info(self.secrets.hide(message), extra={"task": self.task_id, "caller": self.caller_id, **given})

    def key(self, name: str) -> str:
        """Return an idempotency key: the same for `name` in each attempt of this call, and another one in other calls.

        A service that is sent the same key twice carries out the request once.
        """
        return f"{self.task_id}/{name}"


class ToolContext(_Call):
    """The call of an `async def` function, with durable steps and waits.

    They are numbered in the order in which the function begins them. After a crash the function runs again from its
    start, and recorded steps return their results without running.
    """

    @overload
    def step(
        self, function: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, at_most_once: bool = False, **kwargs: Any
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def step(
        self, function: Callable[..., R], /, *args: Any, at_most_once: bool = False, **kwargs: Any
    ) -> Coroutine[Any, Any, R]: ...
    def step(
        self, function: Callable[..., Any], /, *args: Any, at_most_once: bool = False, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Run `function(*args, **kwargs)` and record its result before it is returned. A later attempt gets it again.

        The result is what JSON makes of it and the function's return type reads, at most 1 MiB. Without `at_most_once`
        a step that was interrupted runs again; with it, the call fails with `outcome_unknown`.
        """
        return _step(self, self.journal.begin(), function, at_most_once, args, kwargs)

    def sleep(self, duration: timedelta | float) -> Coroutine[Any, Any, None]:
        """Wait durably for `duration`, a time span or seconds. Nothing runs meanwhile. It ends the current attempt."""
        return _sleep(self, self.journal.begin(), duration)

    @overload
    def ask(self, question: str, *, timeout: timedelta = DEFAULT_DEADLINE) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        self, question: str, answer: type[R], *, timeout: timedelta = DEFAULT_DEADLINE
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def ask(self, question: str, answer: Any, *, timeout: timedelta = DEFAULT_DEADLINE) -> Coroutine[Any, Any, Any]: ...
    def ask(
        self, question: str, answer: Any = str, *, timeout: timedelta = DEFAULT_DEADLINE
    ) -> Coroutine[Any, Any, Any]:
        """Ask the caller and wait durably for an answer of type `answer`: a pydantic model, `str`, `int`, a `Literal`.

        Raises `NotAnswered` if it is declined, or after `timeout`.
        """
        return _ask(self, self.journal.begin(), question, answer, timeout)

    def approve(
        self, question: str, details: Mapping[str, JsonValue] | None = None, *, timeout: timedelta = DEFAULT_DEADLINE
    ) -> Coroutine[Any, Any, Approved]:
        """Ask for an approval and wait durably. `details` are shown with the question.

        Raises `NotApproved` if it is refused, or after `timeout`.
        """
        return _approve(self, self.journal.begin(), question, details, timeout)

    @overload
    def call(
        self, tool: CalledFunction[Coroutine[Any, Any, R]], /, arguments: Arguments = None, **given: Any
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def call(self, tool: CalledFunction[R], /, arguments: Arguments = None, **given: Any) -> Coroutine[Any, Any, R]: ...
    @overload
    def call(self, tool: str, /, arguments: Arguments = None, **given: Any) -> Coroutine[Any, Any, ToolResult]: ...
    def call(self, tool: Any, /, arguments: Arguments = None, *unnamed: Any, **given: Any) -> Coroutine[Any, Any, Any]:
        """Call another tool as a task, and wait durably for its answer. It ends the current attempt.

        `tool` is a function under `@tool`, which returns its return type, or the name of a tool, which returns a
        `ToolResult`. The arguments are keywords, or `arguments`. Raises `CallFailed`.
        """
        return _call(self, self.journal.begin(), tool, arguments, unnamed, given)


class SyncToolContext(_Call):
    """The call of a function without `async`: as `ToolContext`, and steps and waits block the function's thread."""

    loop: asyncio.AbstractEventLoop

    @classmethod
    def of(cls, context: _Call) -> "SyncToolContext":
        """Return the context for a thread, from within the event loop."""
        fields = (context.task_id, context.caller_id, context.session_id, context.attempt, context.report)
        made = cls(*fields, context.journal, context.secrets)
        object.__setattr__(made, "loop", asyncio.get_running_loop())
        return made

    def step(self, function: Callable[..., R], /, *args: Any, at_most_once: bool = False, **kwargs: Any) -> R:
        """As `ToolContext.step`."""
        return self._wait_for(_step(self, self._begin(), function, at_most_once, args, kwargs))

    def sleep(self, duration: timedelta | float) -> None:
        """As `ToolContext.sleep`."""
        self._wait_for(_sleep(self, self._begin(), duration))

    def ask(self, question: str, answer: type[R] | Any = str, *, timeout: timedelta = DEFAULT_DEADLINE) -> Any:
        """As `ToolContext.ask`."""
        return self._wait_for(_ask(self, self._begin(), question, answer, timeout))

    def approve(
        self, question: str, details: Mapping[str, JsonValue] | None = None, *, timeout: timedelta = DEFAULT_DEADLINE
    ) -> Approved:
        """As `ToolContext.approve`."""
        return self._wait_for(_approve(self, self._begin(), question, details, timeout))

    @overload
    def call(self, tool: CalledFunction[Coroutine[Any, Any, R]], /, arguments: Arguments = None, **given: Any) -> R: ...
    @overload
    def call(self, tool: CalledFunction[R], /, arguments: Arguments = None, **given: Any) -> R: ...
    @overload
    def call(self, tool: str, /, arguments: Arguments = None, **given: Any) -> ToolResult: ...
    def call(self, tool: Any, /, arguments: Arguments = None, *unnamed: Any, **given: Any) -> Any:
        """As `ToolContext.call`."""
        return self._wait_for(_call(self, self._begin(), tool, arguments, unnamed, given))

    def _begin(self) -> Operation:
        return self.journal.begin(in_thread=True)

    def _wait_for(self, work: Coroutine[Any, Any, R]) -> R:
        loop = getattr(self, "loop", None)
        return asyncio.run(work) if loop is None else asyncio.run_coroutine_threadsafe(work, loop).result()


async def _step(
    context: _Call,
    operation: Operation,
    function: Callable[..., Any],
    once: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if not callable(function):
        raise TypeError(
            f"ctx.step takes a function and its arguments, not {function!r}: write ctx.step(f, x), without calling f."
        )
    name, secrets = context.secrets.hide(name_of(function)), context.secrets
    codec = _Result.of(function, name)
    stub = STUBS.get().get(name.rpartition(".")[2])

    async def run() -> JsonValue:
        if stub is not None:
            return secrets.hide_in(codec.written(stub()))
        bound = functools.partial(function, *args, **kwargs)
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "func", None))
        value = await bound() if is_async else await in_thread(name, bound)
        return secrets.hide_in(codec.written(await value if inspect.isawaitable(value) else value))

    recorded = await context.journal.run(operation, name, digest_of((args, kwargs), secrets), run, once=once)
    return codec.read(recorded)


async def _sleep(context: _Call, operation: Operation, duration: timedelta | float) -> None:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds <= MAX_SLEEP.total_seconds():
        raise ValueError(f"ctx.sleep takes 0 seconds to {MAX_SLEEP.days} days, not {seconds:g} seconds.")
    if not context.journal.is_durable:
        await asyncio.sleep(seconds)
        return
    await _wait(context, operation, "sleep", digest_of(seconds), seconds=seconds)


async def _ask(context: _Call, operation: Operation, question: str, answer: Any, timeout: timedelta) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(answer)
    schema: JsonObject = adapter.json_schema()
    is_object = schema.get("type") == "object"
    if not is_object:
        definitions = schema.pop("$defs", None)
        schema = {
            "type": "object",
            "properties": {_ANSWER: schema},
            "required": [_ANSWER],
            "additionalProperties": False,
        }
        if definitions is not None:
            schema["$defs"] = definitions
    question, schema = context.secrets.hide_in([question, schema])
    entry = await _wait(
        context, operation, "ask", digest_of((question, schema)),
        seconds=timeout.total_seconds(), message=question, answer_schema=schema,
    )  # fmt: skip
    outcome = WaitOutcome.model_validate(entry.value)
    if outcome.action != "accept":
        raise NotAnswered(_unanswered(outcome, f"Nobody answered: {question}").envelope)
    return adapter.validate_python(outcome.content if is_object else outcome.content[_ANSWER])


async def _approve(
    context: _Call, operation: Operation, question: str, details: Mapping[str, JsonValue] | None, timeout: timedelta
) -> Approved:
    question, shown = context.secrets.hide_in([question, dict(details or {})])
    entry = await _wait(
        context, operation, "approve", digest_of((question, shown)),
        seconds=timeout.total_seconds(), message=question, details=shown,
    )  # fmt: skip
    outcome = WaitOutcome.model_validate(entry.value)
    if outcome.action != "accept":
        who = outcome.by or "the client"
        note = f" They wrote: {outcome.note}" if outcome.note else ""
        raise NotApproved(_unanswered(outcome, f"{question} This was not approved by {who}.{note}").envelope)
    return Approved(outcome.by, outcome.note)


async def _call(
    context: _Call,
    operation: Operation,
    tool: Any,
    arguments: Arguments,
    unnamed: tuple[Any, ...],
    given: dict[str, Any],
) -> Any:
    function = None if isinstance(tool, str) else cast("CalledFunction[Any]", tool)
    name: object = tool if function is None else getattr(getattr(function, "definition", None), "name", None)
    if not isinstance(name, str):
        raise TypeError(f"ctx.call takes the name of a tool, or a function under @tool, not {tool!r}.")
    if unnamed or not isinstance(arguments, Mapping | BaseModel | None):
        raise TypeError(_without_names(function, name, 1 + len(unnamed), given))
    if arguments is not None and given:
        raise TypeError(f"ctx.call({name!r}): write all arguments as keywords, or all in `arguments`.")
    try:
        details = as_json(dict(arguments if arguments is not None else given))
    except UnusableAnswer as error:
        text = str(error).replace("The tool's answer", "The arguments", 1)
        raise TypeError(f"ctx.call({name!r}): {text}") from None
    if context.secrets.hide_in(details) != details:
        raise ToolFailure.of(
            ErrorCategory.VALIDATION,
            f"{name} was not called: an argument holds a secret of this tool, and arguments are recorded.",
            hint=f"Declare the secret for {name}, too: its function reads it with ctx.secret.",
        )
    if function is not None and (called := CALLED.get()) is not None:
        called[name] = function
    entry = await _wait(context, operation, "call", digest_of((name, details)), tool=name, details=details)
    outcome = CallOutcome.model_validate(entry.value)
    result = outcome.result
    if result.is_error:
        envelope = result.error or ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, name, result.text)
        raise context.journal.final(CallFailed(_with_named_violations(envelope), outcome.task_id))
    if function is None:
        return result
    try:
        return function.read(result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        envelope = ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            name,
            f"{name} was called, and its answer does not fit the return type of its function: {first['msg']}.",
            hint="Report it to the tool's author: the tool was changed, or its type cannot be read from JSON.",
        )
        raise context.journal.final(CallFailed(envelope, outcome.task_id)) from None


def _with_named_violations(envelope: ErrorEnvelope) -> ErrorEnvelope:
    """The error of a call with its violations in the message: lists of tasks show only its first line."""
    violations = envelope.violations or ()
    if not violations:
        return envelope
    named = [f"{one.path or '(arguments)'}: {one.message.rstrip('.')}" for one in violations[:MAX_NAMED_VIOLATIONS]]
    others = f"; and {len(violations) - len(named)} more" if len(violations) > len(named) else ""
    message = f"{envelope.message.rstrip('.')}: {'; '.join(named)}{others}."
    return envelope.model_copy(update={"message": message[:MAX_MESSAGE_CHARS]})


def _without_names(function: Any, tool: str, count: int, given: Iterable[str]) -> str:
    """The error for a call with `count` positional arguments and the keywords `given`."""
    if function is None:
        called, names = repr(tool), ["name"]
    else:
        called = getattr(function, "__name__", tool)
        properties = cast(dict[str, Any], function.definition.input_schema.get("properties") or {})
        names = [*[name for name in properties if name not in given][:count], *given]
    example = ", ".join((called, *(f"{name}=..." for name in names)))
    return f"ctx.call({called}): arguments are given by name. Write ctx.call({example})."


async def _wait(context: _Call, operation: Operation, kind: WaitKind, digest: str, **wait: Any) -> StepEntry:
    """Return the entry for the end of a wait. Raises `Suspended` until the workflow has recorded it."""
    journal = context.journal
    entry = await journal.recorded(operation, kind, digest)
    if entry is not None:
        return entry
    if not journal.is_durable:
        raise RuntimeError(_NO_STEPS)
    raise journal.suspend(operation, Wait(position=operation.position, kind=kind, digest=digest, **wait))


def _unanswered(outcome: WaitOutcome, message: str) -> ToolFailure:
    if outcome.action == "timeout":
        return ToolFailure.of(
            ErrorCategory.TIMEOUT, f"{message} Its time was over.", hint="Call again when somebody can answer."
        )
    return ToolFailure.of(
        ErrorCategory.PERMISSION,
        message,
        hint="Do not call it again in the same way; do what the note says, or ask the user.",
    )


class _Result:
    """How the result of a step is written as JSON and read again, by the function's return type."""

    def __init__(self, adapter: TypeAdapter[Any], name: str) -> None:
        self._adapter = adapter
        self._name = name

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "_Result":
        """The form of this function's result. A type that pydantic does not know is written and read as plain JSON."""
        kind: Any = Any
        try:
            kind = get_type_hints(getattr(function, "func", function)).get("return", Any)
            return cls(_adapter_of(kind), name)
        except (NameError, TypeError, PydanticUserError, PydanticSchemaGenerationError):
            return cls(TypeAdapter(Any), name)

    def written(self, value: Any) -> JsonValue:
        """The result as JSON. Raises `ToolFailure` for one that has no JSON form, or is too large, and for a secret."""
        if isinstance(value, SecretStr | SecretBytes):
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"The step {self._name} returned a secret, which is not recorded.",
                hint="Report it to the tool's author: the function calls ctx.secret outside of steps.",
            )
        try:
            written = self._adapter.dump_json(value)
        except PydanticSerializationError:
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"The step {self._name} returned {type(value).__name__}, which has no JSON form: it cannot be kept.",
                hint="Report it to the tool's author: a step returns JSON values, pydantic models or dataclasses.",
            ) from None
        if len(written) > MAX_STEP_BYTES:
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"The step {self._name} returned {len(written)} bytes; the limit is {MAX_STEP_BYTES}.",
                hint="Report it to the tool's author: a step stores large data elsewhere, and returns where.",
            )
        return cast(JsonValue, _JSON.validate_json(written))

    def read(self, recorded: JsonValue) -> Any:
        """The result from its JSON form, in the function's return type."""
        try:
            return self._adapter.validate_json(_JSON.dump_json(recorded))
        except ValidationError:
            return recorded


_JSON: TypeAdapter[Any] = TypeAdapter(JsonValue)
MAX_SLEEP = timedelta(days=365)


def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))
    except PydanticUserError:  # a model or a dataclass has its own configuration
        return TypeAdapter(kind)
