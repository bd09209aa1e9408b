"""The interpreter of programs: replay in the recorded order, exceptions of failed calls, and what it refuses."""

import random
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pydantic_monty
import pytest

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.workflows.contracts.steps import CallOutcome, StepEntry, Wait
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.programs.interpreter import MAX_AT_ONCE, MAX_OUTPUT_CHARS, Ended, Program, run
from outlast.workflows.programs.stubs import ProgramTool
from outlast.workflows.tools.framework.journal import Journal, Suspended

ECHO = ProgramTool("echo", {"type": "object", "properties": {"x": {}}, "required": ["x"]})
BEGAN = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
async def pool() -> AsyncGenerator[pydantic_monty.AsyncMonty]:
    async with pydantic_monty.AsyncMonty() as pool:
        yield pool


class Attempts:
    """Attempts of one program: each has the answers that were recorded so far."""

    def __init__(self, pool: pydantic_monty.AsyncMonty, code: str, *, seed: str = "task-1") -> None:
        self._pool = pool
        self._program = Program(code, {}, {"echo": ECHO})
        self._seed = seed
        self.entries: list[StepEntry] = []

    async def once(self) -> Ended | list[Wait]:
        """What the next attempt ends with: the end of the program, or what it waits for."""

        async def record(entry: StepEntry) -> None:
            self.entries.append(entry)

        async def pool() -> pydantic_monty.AsyncMonty:
            return self._pool

        journal = Journal(tuple(self.entries), record)
        journal.enter()
        try:
            return await run(self._program, journal, seed=self._seed, began=BEGAN, pool=pool)
        except Suspended:
            assert journal.continues_on_any
            return journal.waits

    def answer(self, wait: Wait, result: ToolResult) -> None:
        value = CallOutcome(result=result).model_dump(mode="json", exclude_none=True)
        self.entries.append(StepEntry(position=wait.position, name=wait.kind, digest=wait.digest, value=value))


def answered(value: Any) -> ToolResult:
    return ToolResult(content=(), structured={"result": value})


async def test_an_attempt_gets_the_answers_in_the_order_in_which_they_came(pool: pydantic_monty.AsyncMonty) -> None:
    code = """
import asyncio
order = []
async def branch(name):
    for number in range(3):
        order.append(await echo(x=f"{name}{number}"))
await asyncio.gather(branch("a"), branch("b"), branch("c"))
order
"""
    attempts, expected = Attempts(pool, code), list[str]()
    chosen = random.Random(7)
    while not isinstance(end := await attempts.once(), Ended):
        known = {entry.position for entry in attempts.entries}
        assert not known & {wait.position for wait in end}
        wait = chosen.choice(end)
        assert isinstance(wait.details["x"], str)
        expected.append(wait.details["x"])
        attempts.answer(wait, answered(wait.details["x"]))
    assert end.value == expected
    assert len(attempts.entries) == 9


@pytest.mark.parametrize("category", list(ErrorCategory))
async def test_each_failed_call_is_an_exception_that_a_program_can_name(
    pool: pydantic_monty.AsyncMonty, category: ErrorCategory
) -> None:
    code = """
try:
    await echo(x=1)
except (ValueError, PermissionError, TimeoutError, LookupError, OSError, RuntimeError) as error:
    caught = str(error)
caught
"""
    attempts = Attempts(pool, code)
    waits = await attempts.once()
    assert isinstance(waits, list)
    attempts.answer(waits[0], ToolResult.failed(ErrorEnvelope.permanent(category, "echo", "No.")))
    end = await attempts.once()
    assert isinstance(end, Ended)
    assert end.value == f"{category.value}: No."


async def test_clock_and_random_numbers_are_those_of_the_task(pool: pydantic_monty.AsyncMonty) -> None:
    code = "import random, datetime\n[random.random(), str(datetime.datetime.now())]"
    first, again = [await Attempts(pool, code).once() for _ in range(2)]
    other = await Attempts(pool, code, seed="task-2").once()
    assert isinstance(first, Ended)
    assert first == again != other
    assert "2026-11-29 12:00:00" in str(first.value)


async def test_a_program_that_does_not_make_the_recorded_call_ends(pool: pydantic_monty.AsyncMonty) -> None:
    attempts = Attempts(pool, "await echo(x=1)")
    waits = await attempts.once()
    assert isinstance(waits, list)
    attempts.answer(waits[0].model_copy(update={"digest": "0" * 64}), answered(1))
    with pytest.raises(ToolFailure, match="does not match the journal"):
        await attempts.once()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("await echo(1)", "Too many positional arguments"),
        ("await echo(y=1)", "program.py:1:"),
        ("import os\nos.environ['HOME']", "os.environ"),
        ("open('/etc/passwd').read()", "`open`"),
        ("import socket", "socket"),
        ("class A(Exception): pass", "does not yet support"),
        ("await ask(5)", "program.py:1:"),
        ("x = 1\nx.y", "program.py:2:"),
        ("print('a')\n1 / 0", "ZeroDivisionError"),
        ("import asyncio\nawait asyncio.sleep(1e9)", "can sleep 0 seconds"),
        ("{1: {2: object()}}", ""),
        ("eval('ec' + 'ho2(x=1)')", "echo2"),
        ("await ask('x' * 5_000)", "at most 4000 characters"),
        ("await approve('ok?', rows=['x' * 70_000])", "at most 65536 bytes"),
        ("await echo(x='x' * 2_000_000)", "more than 1048576 bytes"),
        ("import asyncio\nawait asyncio.gather(*(echo(x=n) for n in range(2_500)))", "more than 1500 calls"),
    ],
)
async def test_what_is_wrong_is_named(pool: pydantic_monty.AsyncMonty, code: str, words: str) -> None:
    with pytest.raises(ToolFailure) as failed:
        await Attempts(pool, code).once()
    assert words in failed.value.envelope.message


async def test_what_a_program_prints_is_its_value_if_it_has_no_other(pool: pydantic_monty.AsyncMonty) -> None:
    end = await Attempts(pool, "print('hello')").once()
    assert isinstance(end, Ended)
    assert (end.value, end.printed) == (None, "hello\n")


async def test_a_program_that_prints_without_an_end_fills_no_memory(pool: pydantic_monty.AsyncMonty) -> None:
    end = await Attempts(pool, "for _ in range(300): print('x' * 1_000)").once()
    assert isinstance(end, Ended)
    assert len(end.printed) == MAX_OUTPUT_CHARS


async def test_calls_beyond_those_that_may_be_open_begin_when_others_have_ended(
    pool: pydantic_monty.AsyncMonty,
) -> None:
    attempts = Attempts(pool, "import asyncio\nsum(await asyncio.gather(*(echo(x=n) for n in range(250))))")
    begun: set[str] = set()
    while not isinstance(end := await attempts.once(), Ended):
        assert len(end) <= MAX_AT_ONCE
        begun |= {wait.position for wait in end}
        for wait in end:
            attempts.answer(wait, answered(wait.details["x"]))
    assert (end.value, len(begun)) == (sum(range(250)), 250)
