"""Tools that would stop a worker, or fill its histories, if nothing stopped them. Loaded with OUTLAST_TOOLS_FROM."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, cast
from uuid import UUID, uuid4

from pydantic import Field
from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.runs.contracts import RunSpec
from outlast.activities.unicode_text import REPLACEMENT
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.handlers import Handler
from outlast.workflows.tools.framework.phases import plain
from outlast.workflows.tools.framework.tool import Arguments, Category, NoArguments, Tool, tool

SPIN_SECONDS = 2.5
"""A step of a workflow may take two."""
_EVENTS_OF_FIRST_ATTEMPT = 3
"""Of a workflow that got no signal: started, its first task scheduled and begun."""


class MegabytesArguments(Arguments):
    megabytes: int = Field(ge=1)
    values: bool = False
    form: str = Field(default="text", description="`quoted`: a text of quotes; `twice`: JSON as text, too.")


class SpinArguments(Arguments):
    actor: str | None = None


class ErrorOfMany(Exception):
    """An expected error with a long message."""


async def _spin(ctx: HandlerContext, arguments: SpinArguments) -> ToolResult:
    """Start a run, then never come to an end in one step: every attempt to go on fails."""
    await ctx.runs.start(_run(arguments))
    _never_end()


async def _spin_later(ctx: HandlerContext, arguments: SpinArguments) -> ToolResult:
    """The same in the step after the one that started the run."""
    await ctx.runs.start(_run(arguments))
    await workflow.sleep(0.1)
    _never_end()


async def _spin_first(ctx: HandlerContext, arguments: SpinArguments) -> ToolResult:
    """The same in the first step, which no attempt completes: only the first one comes as far as to the run."""
    if workflow.info().get_current_history_length() > _EVENTS_OF_FIRST_ATTEMPT:
        _never_end()
    await ctx.runs.start(_run(arguments))
    _never_end()


def _run(arguments: SpinArguments) -> RunSpec:
    return RunSpec(actor=arguments.actor or "outlast/sleeper", input={"seconds": 600})


def _never_end() -> NoReturn:
    with workflow.unsafe.sandbox_unrestricted():
        end = time.monotonic() + SPIN_SECONDS
        while time.monotonic() < end:
            time.sleep(0.01)  # Other tasks are not to be kept from their starts.
    raise AssertionError("unreachable: the step has been given up")


async def _throw_in_workflow(_ctx: HandlerContext, arguments: MegabytesArguments) -> ToolResult:
    raise ErrorOfMany("z" * arguments.megabytes * 1_000_000)


@plain
async def throw(arguments: MegabytesArguments) -> str:
    """Raise errors in a chain, each with a message of so many megabytes."""
    error: Exception | None = None
    for number in range(20):
        cause, error = error, OSError(f"{number} " + "z" * arguments.megabytes * 1_000_000)
        error.__cause__ = cause
    assert error is not None
    raise error


def _deep() -> dict[str, Any]:
    value: Any = 1
    for _ in range(230):
        value = [value]
    return {"deep": value}


async def _answer_deep(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(structured=_deep())


@plain
async def answer(arguments: MegabytesArguments) -> str | dict[str, list[dict[str, str]]] | ToolResult:
    """So many megabytes: as a text, as empty objects, or in another form."""
    size = arguments.megabytes * 1_000_000
    if arguments.form == "deep":
        return _deep()
    if arguments.form == "quoted":
        return json.dumps({'"': '"' * (size // 2)})
    if arguments.form != "text":
        value: dict[str, Any] = {"text": "x" * size}
        content = (TextContent(text=json.dumps(value)),)
        return ToolResult(content=content, structured=value if arguments.form == "twice" else None)
    return {"rows": [{}] * (size // 3)} if arguments.values else "many words " * (size // 11)


class OddAnswerArguments(Arguments):
    kind: str
    marks: str = Field(description="A folder that gets a file for each execution: the effect of the tool.")


class _Named(Enum):
    YES = "yes"


@dataclass
class _Point:
    x: Decimal


class _Number:
    """Looks like a number of an array library."""

    def __float__(self) -> float:
        return 1.0


def _written() -> dict[Any, Any]:
    return {
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "price": Decimal("1.10"),
        "id": UUID(int=1),
        "set": {1},
        "tuple": (1, "a"),
        "bytes": b"text",
        "enum": _Named.YES,
        "point": _Point(Decimal(2)),
        "path": Path("/a/b"),
        7: {date(2026, 1, 2): timedelta(seconds=90)},
        "half": "caf\ud83d",
    }


def _endless() -> dict[str, object]:
    endless: dict[str, object] = {}
    endless["again"] = endless
    return endless


def _exit() -> NoReturn:
    """As the main function of a program that became a tool."""
    sys.exit(3)


def _expected() -> NoReturn:
    half = "caf\ud83d"
    raise ToolError(
        ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION, "odd-answer", half, hint=half, violations=(Violation(path=half, message=half),)
        )
    )


def _cancelled() -> NoReturn:
    """As a library whose own task was cancelled."""
    raise asyncio.CancelledError


_ODD: dict[str, Callable[[], object]] = {
    "written": _written,
    "number": lambda: {"rows": [{"fine": 1}, {"score": _Number()}]},
    "bytes": lambda: {"a/b": b"\xff\xfe"},
    "endless": _endless,
    "list": lambda: [1, 2],
    "validation": lambda: OddAnswerArguments.model_validate({"kind": 1}),
    "parser": lambda: json.loads("{"),
    "half": lambda: ToolResult(content=(TextContent(text="caf\ud83d"),), structured={"\ude00": ["\0"]}),
    "names": lambda: {
        "caf\ud83d": {"\udc00": {"when": date(2026, 1, 2), "model": _Named.YES}},
        f"caf{REPLACEMENT}": 1,
    },
    "result": lambda: ToolResult(
        content=(TextContent(text="done"),),
        structured=_written(),
        meta=cast("Any", {"when": date(2026, 1, 2), "half": "\ud83d"}),
    ),
    "result of a number": lambda: ToolResult(content=(), structured=cast("Any", {"score": _Number()})),
    "exit": _exit,
    "expected": _expected,
    "cancelled": _cancelled,
    "large": lambda: {"rows": [{"text": "x" * 9_990} for _ in range(1_000)]},
}


@plain
async def odd_answer(arguments: OddAnswerArguments) -> Any:
    """Have an effect, and answer with a value that is hard to write, or fail on the way to it."""
    (Path(arguments.marks) / uuid4().hex).touch()
    return _ODD[arguments.kind]()


async def _odd_answer_here(_ctx: HandlerContext, arguments: OddAnswerArguments) -> Any:
    return _ODD[arguments.kind]()


async def _half_words(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    """Say half a character wherever a tool has words for others."""
    half = "caf\ud83d"
    ctx.progress(1, message=half)
    question = InputRequest(
        message=half, requested_schema={"type": "object", "properties": {"a": {"type": "string", "title": half}}}
    )
    await ctx.ask("half", question)
    run = await ctx.runs.start(RunSpec(actor="outlast/sleeper", input={"seconds": 0, "message": half}))
    return ToolResult(structured={"run": run.run_id})


def _spinning(name: str, handler: Handler) -> Tool:
    return (
        tool(name)
        .category(Category.DEV)
        .describe("Spins.")
        .args(SpinArguments)
        .server(handler, calls_actor=True)
        .build()
    )


TOOLS: tuple[Tool, ...] = (
    tool("odd-answer").category(Category.DEV).describe("Answers.").args(OddAnswerArguments).server(odd_answer).build(),
    tool("odd-answer-here")
    .category(Category.DEV)
    .describe("Answers.")
    .args(OddAnswerArguments)
    .server(_odd_answer_here)
    .build(),
    tool("answer-deep").category(Category.DEV).describe("Deep.").args(NoArguments).server(_answer_deep).build(),
    tool("half-words").category(Category.DEV).describe("Half.").args(NoArguments).server(_half_words).build(),
    _spinning("spin", _spin),
    _spinning("spin-later", _spin_later),
    _spinning("spin-first", _spin_first),
    tool("throw-here")
    .category(Category.DEV)
    .describe("Throws.")
    .args(MegabytesArguments)
    .server(_throw_in_workflow)
    .build(),
    tool("throw").category(Category.DEV).describe("Throws.").args(MegabytesArguments).server(throw).build(),
    tool("answer").category(Category.DEV).describe("Answers.").args(MegabytesArguments).server(answer).build(),
)
