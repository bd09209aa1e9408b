"""Checks JMESPath of callers, and evaluates it in a process with limited time and memory, see `jmespath_process`."""

import asyncio
import dataclasses
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from outlast.activities.failures.exceptions import OutputError
from outlast.activities.json_values import loads
from outlast.activities.outputs.jmespath_process import Query

MAX_EXPRESSION_CHARS = 1_000
MAX_EXPRESSION_DEPTH = 30
MAX_JSON_BYTES = 32 * 1024 * 1024
"""Larger values are not evaluated: parsed, they would need more memory than the process has."""

_ANSWER_SECONDS = 30
"""The time limit of one batch. The process's limit of CPU time stops an expression that computes for too long; this one
only ends the wait on a machine that gives the process no CPU time. It is shorter than an attempt of a read activity."""
_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class Expressions:
    """Evaluates one query on batches of rows, or on a whole value."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def evaluate(self, batch: bytes) -> dict[str, Any]:
        """Return the result of `jmespath_process.Evaluator` for these rows or this value. Raises `OutputError`."""
        return await self.send(b"%d\n" % len(batch), batch)

    async def send(self, *pieces: bytes) -> dict[str, Any]:
        """Write `pieces` to the process and return its answer. Raises `OutputError` (bad_selection)."""
        source, target = self._process.stdin, self._process.stdout
        assert source is not None
        assert target is not None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                source.writelines(pieces)
                await source.drain()
                line = await target.readline()
        except TimeoutError:
            raise _over_limits() from None
        except ValueError:
            raise OutputError("bad_selection", "The expression's results are too large.") from None
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if not line:
            raise _over_limits()
        answer: dict[str, Any] = await asyncio.to_thread(loads, line)
        if "error" in answer:
            raise OutputError("bad_selection", answer["error"])
        return answer


@asynccontextmanager
async def expressions(query: Query) -> AsyncGenerator[Expressions]:
    """Provide an evaluator of `query` for the block. Raises `OutputError` (bad_selection) for an invalid expression."""
    for expression in (query.filter, query.select):
        if expression is not None and (problem := size_problem(expression)) is not None:
            raise OutputError("bad_selection", problem)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # no module of the current folder
        "-m",
        "outlast.activities.outputs.jmespath_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_ANSWER_BYTES,
        # Nothing of the worker's environment: the process that evaluates a caller's expression holds no secrets.
        env={"PYTHONPATH": ":".join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        evaluator = Expressions(process)
        await evaluator.send(orjson.dumps(dataclasses.asdict(query)) + b"\n")
        yield evaluator
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def size_problem(expression: str) -> str | None:
    """Return the reason why an expression is not even parsed; None if it may be."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        return f"An expression may have at most {MAX_EXPRESSION_CHARS} characters."
    depth = deepest = 0
    for character in expression:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_EXPRESSION_DEPTH:
        return f"An expression may have at most {MAX_EXPRESSION_DEPTH} levels of nesting."
    return None


def _over_limits() -> OutputError:
    return OutputError(
        "bad_selection",
        "The expression was stopped: it takes too much time or memory.",
        "Simplify it, or apply it to fewer rows.",
    )


def problem_of(expression: str) -> str | None:
    """Return the problem with `expression`; None if it can be applied. Errors that depend on the value appear later."""
    problem = size_problem(expression)
    if problem is not None:
        return problem
    try:
        parsed = cast(dict[str, Any], jmespath.compile(expression).parsed)
    except RecursionError:
        return "It is nested too deeply."
    except JMESPathError as error:
        return f"It is not valid JMESPath: {' '.join(str(error).split())[:300]}"
    return _wrong_function(parsed)


def _wrong_function(parsed: dict[str, Any]) -> str | None:
    table: dict[str, dict[str, Any]] = Functions.FUNCTION_TABLE
    left = [parsed]
    while left:
        node = left.pop()
        children = cast("list[Any]", node.get("children") or [])
        if node.get("type") == "function_expression":
            name, signature = str(node.get("value")), table.get(str(node.get("value")), {}).get("signature")
            if signature is None:
                return f"There is no function {name[:50]!r}."
            most = None if any(one.get("variadic") for one in signature) else len(signature)
            if len(children) < len(signature) or (most is not None and len(children) > most):
                return f"{name}() takes {len(signature)} arguments, and has {len(children)}."
        left += [child for child in children if isinstance(child, dict)]
    return None
