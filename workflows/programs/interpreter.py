"""Runs a program up to the calls that have no answer yet.

The journal of the task is the truth: each attempt runs the program from its beginning and hands it the recorded
answers in the order in which they were recorded, so that it makes the same calls again. Clock and random numbers are
the same in each attempt, too.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_core import to_json

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.extras import command_that_adds
from outlast.workflows.contracts.steps import CallOutcome, StepEntry, Wait, WaitOutcome
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.contracts.written_json import UnusableAnswer, as_json
from outlast.workflows.programs.stubs import ProgramTool, stubs
from outlast.workflows.tools.framework.journal import (
    MAX_STEP_BYTES,
    Journal,
    Operation,
    Suspended,
    digest_of,
)
from outlast.workflows.tools.framework.tool_context import MAX_SLEEP

if TYPE_CHECKING:
    import pydantic_monty as monty

LIMITS = {
    "max_turn_duration_secs": 10.0,
    "max_feed_duration_secs": 60.0,
    "max_memory": 100 * 1024 * 1024,
    "max_recursion_depth": 500,
    "max_suspensions": 20_000,
}
"""Limits of one attempt: seconds of computing between two calls and in all, bytes, calls within each other, calls."""
MAX_OUTPUT_CHARS = 100_000
MAX_CALLS = 1_500
"""Calls, questions, and sleeps of a program. Each adds up to 25 events to the task's history, which may have 51,200."""
MAX_AT_ONCE = 100
"""Calls that are open at the same time. Further ones begin when these have ended."""
_MAX_QUESTION_CHARS = 4_000
_MAX_DETAILS_BYTES = 64 * 1024
_REQUEST_SECONDS = 90.0
"""Longest time of the interpreter, the type checker included, for one request; its own limits end it earlier."""
_ASK_TIME = 7 * 24 * 3600
_BUILT_IN = """
class PermissionError(OSError): ...
async def ask(question: str) -> str: ...
async def approve(question: str, **details: Any) -> bool: ...
"""
_EXCEPTIONS = {
    ErrorCategory.VALIDATION: "ValueError",
    ErrorCategory.PERMISSION: "PermissionError",
    ErrorCategory.AUTHENTICATION: "PermissionError",
    ErrorCategory.TIMEOUT: "TimeoutError",
    ErrorCategory.NETWORK: "OSError",
    ErrorCategory.NOT_FOUND: "LookupError",
}
"""Exceptions of failed calls by category; `RuntimeError` for all others. The message begins with the category."""
_BLOCKING_SLEEP = "time.sleep"
_SLEEPS = (_BLOCKING_SLEEP, "asyncio.sleep")


@dataclass(frozen=True)
class Program:
    """A program and what it may use."""

    code: str
    inputs: Mapping[str, JsonValue]
    tools: Mapping[str, ProgramTool]
    """By the names of their functions."""


@dataclass(frozen=True)
class Ended:
    """The end of a program."""

    value: JsonValue
    printed: str


def identifiers(code: str) -> frozenset[str]:
    """Return all words in a program that may be names of functions."""
    return frozenset(re.findall(r"[^\W\d]\w*", code))


async def run(
    program: Program,
    journal: Journal,
    *,
    seed: str,
    began: datetime,
    report: Callable[[str], None] = lambda _: None,
    pool: "Callable[[], Awaitable[monty.AsyncMonty]] | None" = None,
) -> Ended:
    """Return the end of the program. Raises `Suspended` at calls without an answer, and `ToolFailure`."""
    try:
        import pydantic_monty as monty  # noqa: PLC0415 (a worker without programs does not load it)
    except ImportError:
        raise ToolFailure.of(
            ErrorCategory.PLATFORM,
            "This worker cannot run programs.",
            hint=f"Ask the operators to install the interpreter: {command_that_adds('programs')}",
        ) from None
    variables = "".join(f"{name}: Any\n" for name in program.inputs)
    declarations = stubs(program.tools.values()) + _BUILT_IN + variables
    printed = _Printed()
    interpreter = await (pool or _pool)()
    try:
        async with interpreter.checkout(
            script_name="program.py",
            limits=cast("monty.ResourceLimits", LIMITS),
            type_check=True,
            type_check_stubs=declarations,
            type_check_format="concise",
            os_policy={"datetime": began.astimezone(UTC), "sleep": "call_host", "random_start": {"seed": _seed(seed)}},
        ) as session:
            state = await session.feed_start(program.code, inputs=dict(program.inputs), print_callback=printed.add)
            value = await _Run(program, journal, report).to_end(state)
    except monty.MontySyntaxError as error:
        raise _refused(f"The program cannot be read: {error}") from None
    except monty.MontyTypingError as error:
        raise _refused(f"The program has errors, and was not run:\n{_shown(str(error))}") from None
    except monty.MontyRuntimeError as error:
        raise _failed(error) from None
    except monty.MontyCrashedError:
        raise ToolFailure.of(
            ErrorCategory.PLATFORM, "The interpreter of the program has crashed.", retryable=True
        ) from None
    return Ended(value, printed.text)


class _Printed:
    """The beginning of what a program prints. The rest is dropped as it comes: it could fill the worker's memory."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, _stream: str, text: str) -> None:
        """Add what was printed."""
        self.text += text[: MAX_OUTPUT_CHARS - len(self.text)]


class _Run:
    def __init__(self, program: Program, journal: Journal, report: Callable[[str], None]) -> None:
        self._program = program
        self._journal = journal
        self._report = report
        self._open: dict[int, tuple[Operation, Wait]] = {}
        self._calls = 0

    async def to_end(self, state: Any) -> JsonValue:
        import pydantic_monty as monty  # noqa: PLC0415

        while not isinstance(state, monty.MontyComplete):
            if isinstance(state, monty.AsyncFunctionSnapshot):
                state = await self._called(state)
            elif isinstance(state, monty.AsyncFutureSnapshot):
                number, answer = await self._next_answer(state.pending_call_ids)
                state = await state.resume({number: answer})
            else:
                state = await state.resume()  # A name that nobody defines: the program gets a NameError.
        try:
            return as_json({"value": state.output})["value"]
        except UnusableAnswer as error:
            raise _refused(str(error).replace("The tool's answer", "The program's value", 1)) from None

    async def _called(self, state: "monty.AsyncFunctionSnapshot") -> Any:
        """Note a call of the program, which goes on until it awaits one."""
        name, line = state.function_name, _line(self._program.code, state.position.start)
        is_sleep = state.is_os_function and name in _SLEEPS
        if state.is_os_function and not is_sleep:
            return await state.resume_not_handled()
        if not is_sleep and name not in (
            *self._program.tools,
            "ask",
            "approve",
        ):  # of `eval`, unchecked
            return await state.resume(_raised("NameError", f"name {name!r} is not defined"))
        try:
            wait = _sleep(state.args) if is_sleep else self._wait_for(name, state.args, state.kwargs, line)
        except (TypeError, ValueError) as error:
            return await state.resume(_raised(type(error).__name__, str(error)))
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"Line {line}: the program makes more than {MAX_CALLS} calls.",
                hint="Divide the work among several programs, or use a batch.",
            )
        operation = self._journal.begin()
        wait = wait.model_copy(update={"position": operation.position})
        self._open[state.call_id] = operation, wait
        if name != _BLOCKING_SLEEP:
            return await state.resume({"future": ...})
        _, answer = await self._next_answer([state.call_id])
        return await state.resume(answer)

    def _wait_for(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int) -> Wait:
        """Raises `TypeError` and `ValueError`, which the program gets."""
        if name not in self._program.tools:
            return _question(name, args, kwargs)
        tool = self._program.tools[name]
        if args:
            raise TypeError(f"{name}() takes its arguments by name: {', '.join(tool.parameters) or 'none'}.")
        details = _details(kwargs)
        message = f"Line {line}: waits for {tool.name}."
        digest = digest_of((tool.name, details))
        return Wait(position="", kind="call", digest=digest, tool=tool.name, details=details, message=message)

    async def _next_answer(self, pending: list[int]) -> tuple[int, Any]:
        """The answer that was recorded first, of these calls. Without one, the attempt ends: raises `Suspended`."""
        waiting = {self._open[number][0].position: number for number in pending}
        entry = self._journal.first_of(waiting)
        if entry is None:
            self._journal.continues_on_any = True
            lines = [self._open[number][1].message for number in pending]
            self._report(next((line for line in lines if line), ""))
            suspended = Suspended()
            for number in sorted(pending)[:MAX_AT_ONCE]:
                operation, wait = self._open[number]
                suspended = self._journal.suspend(operation, wait)
            raise suspended
        number = waiting[entry.position]
        operation, wait = self._open.pop(number)
        await self._journal.recorded(operation, wait.kind, wait.digest)
        return number, _answer(wait, entry)


def _raised(kind: str, message: str) -> Any:
    return {"exc_type": kind, "message": message}


def _sleep(args: tuple[Any, ...]) -> Wait:
    """Raises `TypeError` and `ValueError`, which the program gets."""
    if not args or not isinstance(args[0], int | float):
        raise TypeError("A program sleeps for a number of seconds.")
    if not 0 <= args[0] <= MAX_SLEEP.total_seconds():
        raise ValueError(f"A program can sleep 0 seconds to {MAX_SLEEP.days} days.")
    seconds = float(args[0])
    return Wait(position="", kind="sleep", digest=digest_of(seconds), seconds=seconds)


def _details(given: dict[str, Any]) -> dict[str, JsonValue]:
    """The arguments as JSON. Raises `TypeError`, and `ValueError` if they are too large: a history holds them."""
    try:
        details = as_json(given)
    except UnusableAnswer as error:
        raise TypeError(str(error).replace("The tool's answer", "The arguments", 1)) from None
    if len(to_json(details)) > MAX_STEP_BYTES:
        raise ValueError(f"The arguments have more than {MAX_STEP_BYTES} bytes as JSON.")
    return details


def _question(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Wait:
    if len(args) != 1 or not isinstance(args[0], str):
        raise TypeError(f"{name}() takes a question, which is a text.")
    if len(args[0]) > _MAX_QUESTION_CHARS:
        raise ValueError(f"A question has at most {_MAX_QUESTION_CHARS} characters.")
    details = _details(kwargs)
    if len(to_json(details)) > _MAX_DETAILS_BYTES:
        raise ValueError(f"The details of a question have at most {_MAX_DETAILS_BYTES} bytes as JSON.")
    if name == "approve":
        digest = digest_of((args[0], details))
        return Wait(position="", kind="approve", digest=digest, seconds=_ASK_TIME, message=args[0], details=details)
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return Wait(
        position="", kind="ask", digest=digest_of((args[0], schema)), seconds=_ASK_TIME, message=args[0],
        answer_schema=schema,
    )  # fmt: skip


def _answer(wait: Wait, entry: StepEntry) -> Any:
    """What the interpreter continues with: a value, or an exception."""
    if wait.kind == "sleep":
        return {"return_value": None}
    if wait.kind == "call":
        return _of_call(CallOutcome.model_validate(entry.value))
    outcome = WaitOutcome.model_validate(entry.value)
    if wait.kind == "approve":
        return {"return_value": outcome.action == "accept"}
    if outcome.action != "accept":
        reason = "timeout" if outcome.action == "timeout" else "permission"
        kind = "TimeoutError" if outcome.action == "timeout" else "PermissionError"
        return {"exc_type": kind, "message": f"{reason}: Nobody answered: {wait.message}"}
    return {"return_value": outcome.content["answer"]}


def _of_call(outcome: CallOutcome) -> dict[str, Any]:
    result: ToolResult = outcome.result
    if not result.is_error:
        structured = result.structured
        # Functions that return no object have their value in `result`, as in MCP.
        value = structured["result"] if structured is not None and set(structured) == {"result"} else structured
        return {"return_value": value if structured is not None else result.text}
    error = result.error
    category = error.category if error is not None else ErrorCategory.UNKNOWN
    message = f"{category.value}: {error.message if error is not None else result.text}"
    if error is not None and error.hint:
        message += f" {error.hint}"
    return {"exc_type": _EXCEPTIONS.get(category, "RuntimeError"), "message": message}


def _line(code: str, offset: int) -> int:
    return code.encode()[:offset].count(b"\n") + 1


def _seed(seed: str) -> Any:
    return int(digest_of(seed)[:15], 16)


def _refused(message: str) -> ToolFailure:
    hint = "Correct the program, and call again. Programs are a subset of Python: no classes with bases, no imports."
    return ToolFailure.of(ErrorCategory.VALIDATION, message, hint=hint)


def _failed(error: Any) -> ToolFailure:
    text = str(error)
    with suppress(Exception):
        text = error.display("traceback")
    return ToolFailure.of(
        ErrorCategory.UNKNOWN,
        f"The program has failed.\n{_shown(text)}",
        hint="Calls that it has made before are done. A failed call is an exception that a program can catch.",
    )


def _shown(text: str) -> str:
    return text.strip()[:1_500]


@cache
def _pools() -> list[Any]:
    return []


async def _pool() -> "monty.AsyncMonty":
    """The interpreters of this process. Each program has a process of its own from the pool."""
    import pydantic_monty as monty  # noqa: PLC0415

    pools = _pools()
    if not pools:
        pools.append(await monty.AsyncMonty(request_timeout=_REQUEST_SECONDS).__aenter__())
    return pools[0]
