"""Tools that would stop a worker, or fill its histories, if nothing stopped them. Loaded with OUTLAST_TOOLS_FROM."""

import time
from typing import NoReturn

from pydantic import Field
from temporalio import workflow

from outlast.activities.runs.contracts import RunSpec
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.framework.phases import plain
from outlast.workflows.tools.framework.tool import Arguments, Category, NoArguments, Tool, tool

SPIN_SECONDS = 2.5
"""A step of a workflow may take two."""


class MegabytesArguments(Arguments):
    megabytes: int = Field(ge=1)
    values: bool = False


class ErrorOfMany(Exception):
    """An expected error with a long message."""


async def _spin(ctx: ToolContext, _arguments: NoArguments) -> ToolResult:
    """Start a run, then never come to an end in one step: every attempt to go on fails."""
    await ctx.runs.start(RunSpec(actor="outlast/sleeper", input={"seconds": 600}))
    _never_end()


async def _spin_later(ctx: ToolContext, _arguments: NoArguments) -> ToolResult:
    """The same in the step after the one that started the run."""
    await ctx.runs.start(RunSpec(actor="outlast/sleeper", input={"seconds": 600}))
    await workflow.sleep(0.1)
    _never_end()


def _never_end() -> NoReturn:
    with workflow.unsafe.sandbox_unrestricted():
        end = time.monotonic() + SPIN_SECONDS
        while time.monotonic() < end:
            pass
    raise AssertionError("unreachable: the step has been given up")


async def _throw_in_workflow(_ctx: ToolContext, arguments: MegabytesArguments) -> ToolResult:
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


@plain
async def answer(arguments: MegabytesArguments) -> str | dict[str, list[dict[str, str]]]:
    """So many megabytes: as a text, or as empty objects."""
    size = arguments.megabytes * 1_000_000
    return {"rows": [{}] * (size // 3)} if arguments.values else "many words " * (size // 11)


TOOLS: tuple[Tool, ...] = (
    tool("spin").category(Category.DEV).describe("Spins.").server(_spin, calls_actor=True).build(),
    tool("spin-later").category(Category.DEV).describe("Spins.").server(_spin_later, calls_actor=True).build(),
    tool("throw-here")
    .category(Category.DEV)
    .describe("Throws.")
    .args(MegabytesArguments)
    .server(_throw_in_workflow)
    .build(),
    tool("throw").category(Category.DEV).describe("Throws.").args(MegabytesArguments).server(throw).build(),
    tool("answer").category(Category.DEV).describe("Answers.").args(MegabytesArguments).server(answer).build(),
)
