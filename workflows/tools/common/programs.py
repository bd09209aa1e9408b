"""`run-program`: a program that a model has written, with tools as its functions. See `outlast.workflows.programs`."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from keyword import iskeyword
from typing import Annotated

from pydantic import Field, JsonValue

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.programs.interpreter import Program, identifiers, run
from outlast.workflows.programs.stubs import ProgramTool
from outlast.workflows.tools.framework import calls
from outlast.workflows.tools.framework.decorator import tool
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.framework.tool_context import ToolContext

MAX_CODE_CHARS = 100_000


@tool(
    name=calls.RUN_PROGRAM, title="Run a program", category=Category.PROGRAMS, destructive=True, retries=5, backoff=0.2
)
async def run_program(
    code: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_CODE_CHARS,
            description="Python. Its value is the last expression. Each tool is an async function with its name, "
            "in which every other character than letters and digits is `_`: `await git__git_log(repo_path='.')`. "
            "`asyncio.gather` makes calls at the same time. No imports but of the standard library's json, re, "
            "datetime, math, itertools, and similar modules; no files, no network.",
        ),
    ],
    ctx: ToolContext,
    inputs: Annotated[dict[str, JsonValue] | None, Field(description="Variables of the program.")] = None,
    tools: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]] | None,
        Field(max_length=1_000, description="Names of the tools that it may call, with `*`. Default: all."),
    ] = None,
) -> ToolResult:
    """Run a Python program that calls tools, and return only its value.

    Use it for loops, for many calls, and to filter large answers: intermediate results cost no tokens. Each call is a
    durable task that is executed at most once; the program continues after a crash. A call that fails is an exception:
    ValueError, PermissionError, TimeoutError, LookupError, OSError, or RuntimeError. A message that begins with
    `outcome_unknown` means that the call may have been executed: do not repeat it.
    """
    wrong = next((name for name in inputs or {} if not name.isidentifier() or iskeyword(name)), None)
    if wrong is not None:
        raise ToolFailure.of(ErrorCategory.VALIDATION, f"The input {wrong[:50]!r} cannot be a variable in Python.")
    if ctx.toolbox is None:
        raise ToolFailure.of(ErrorCategory.VALIDATION, "Programs run only as tasks.")
    found: list[Tool] = [
        one
        for one in await ctx.toolbox(identifiers(code))
        if one.name != calls.RUN_PROGRAM and _is_allowed(one.name, tools)
    ]
    functions = [ProgramTool(one.name, one.input_schema, one.output_schema, one.description) for one in found]
    began = datetime.fromtimestamp(await ctx.step(_now), UTC)
    program = Program(code, inputs or {}, {one.function: one for one in functions})
    ended = await run(
        program, ctx.journal, seed=ctx.task_id, began=began, report=lambda words: ctx.progress(0, message=words)
    )
    value = ended.value if ended.value is not None or not ended.printed else ended.printed
    return as_result(value if isinstance(value, dict | str) else {"result": value})


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _is_allowed(name: str, patterns: list[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


RUN_PROGRAM = run_program.definition
