"""Steps of a tool's function: recorded once, replayed by position, checked against what an earlier attempt ran."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from outlast import SyncToolContext, ToolContext, ToolFailure, tool
from outlast.activities.contracts import ErrorCategory
from outlast.workflows.contracts.steps import JournalState, StepEntry
from outlast.workflows.tools.framework.journal import Journal, StepFailed, Suspended, digest_of, name_of


class Receipt(BaseModel):
    amount: int
    at: datetime


@dataclass
class Place:
    name: str


class Refused(Exception):
    """An exception of an author."""


class Attempts:
    """Attempts of one call: each has the journal that the earlier ones have recorded."""

    def __init__(self) -> None:
        self.state = JournalState()
        self.ran: list[object] = []
        self.journal = Journal()

    async def record(self, entry: StepEntry) -> None:
        self.state.record(StepEntry.model_validate_json(entry.model_dump_json()))

    def context(self) -> ToolContext:
        self.journal = Journal(self.state.page(0).entries, self.record)
        self.journal.enter()
        return ToolContext("task-1", "me", journal=self.journal)

    def step(self, value: Any = None, error: Exception | None = None) -> Callable[..., Any]:
        """A step that notes that it ran, and returns `value` or its argument, or raises `error`."""

        async def step(argument: Any = None) -> Any:
            self.ran.append(argument)
            if error is not None:
                raise error
            return argument if value is None else value

        return step


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


async def test_a_recorded_step_does_not_run_again(attempts: Attempts) -> None:
    step = attempts.step()
    for _ in range(2):
        context = attempts.context()
        assert [await context.step(step, 1), await context.step(step, 2)] == [1, 2]
    assert attempts.ran == [1, 2]


async def test_only_steps_after_the_last_recorded_one_run_again(attempts: Attempts) -> None:
    step = attempts.step()
    context = attempts.context()
    await context.step(step, "first")
    context = attempts.context()
    await context.step(step, "first")
    await context.step(step, "second")
    assert attempts.ran == ["first", "second"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Receipt, Receipt(amount=3, at=datetime(2026, 1, 1, tzinfo=UTC))),
        (Place, Place("Prague")),
        (bytes, b"\xff\x00"),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (type(None), None),
        (dict[str, list[int]], {"a": [1]}),
    ],
)
async def test_a_result_has_its_type_in_each_attempt(attempts: Attempts, kind: Any, value: Any) -> None:
    async def made():
        return value

    made.__annotations__["return"] = kind
    for _ in range(2):
        assert await attempts.context().step(made) == value


async def test_without_a_return_type_both_attempts_get_the_same_json(attempts: Attempts) -> None:
    step = attempts.step((1, Place("Brno")))
    results = [await attempts.context().step(step) for _ in range(2)]
    assert results == [[1, {"name": "Brno"}]] * 2


@pytest.mark.parametrize("changed", ["name", "argument"])
async def test_a_step_that_does_not_match_the_journal_is_refused_before_it_runs(
    attempts: Attempts, changed: str
) -> None:
    await attempts.context().step(attempts.step(), 10)

    async def refund(amount: int) -> int:
        attempts.ran.append("refund")
        return amount

    later = attempts.context()
    with pytest.raises(ToolFailure, match=r"Step 1.*does not match the journal") as refused:
        await (later.step(refund, 10) if changed == "name" else later.step(attempts.step(), 12))
    assert refused.value.envelope.category is ErrorCategory.CONFLICT
    assert not refused.value.envelope.retryable
    assert attempts.ran == [10]


async def test_sets_and_keyword_order_do_not_change_the_digest() -> None:
    assert digest_of({"a", "b", "c"}) == digest_of({"c", "b", "a"})
    assert digest_of(object()) == digest_of(object())
    assert digest_of(1) != digest_of("1")


async def test_concurrent_branches_are_matched_however_they_interleave(attempts: Attempts) -> None:
    async def branch(context: ToolContext, name: str, waits: asyncio.Event | None, sets: asyncio.Event | None) -> str:
        first = await context.step(attempts.step(), f"{name} 1")
        if waits is not None:
            await waits.wait()
        second = await context.step(attempts.step(), f"{name} 2")
        if sets is not None:
            sets.set()
        return f"{first}, {second}"

    for order in (0, 1):
        context, gate = attempts.context(), asyncio.Event()
        gates = ((gate, None), (None, gate)) if order == 0 else ((None, gate), (gate, None))
        answers = await asyncio.gather(branch(context, "a", *gates[0]), branch(context, "b", *gates[1]))
        assert answers == ["a 1, a 2", "b 1, b 2"]
    assert sorted(map(str, attempts.ran)) == ["a 1", "a 2", "b 1", "b 2"]


async def test_steps_given_to_gather_have_the_positions_of_their_calls(attempts: Attempts) -> None:
    step = attempts.step()
    for _ in range(2):
        context = attempts.context()
        assert await asyncio.gather(*(context.step(step, number) for number in range(5))) == [0, 1, 2, 3, 4]
    assert attempts.ran == [0, 1, 2, 3, 4]


async def test_a_failure_that_ends_the_function_is_not_recorded(attempts: Attempts) -> None:
    with pytest.raises(Refused):
        await attempts.context().step(attempts.step(error=Refused("no")), 1)
    await attempts.context().step(attempts.step(), 1)
    assert attempts.ran == [1, 1]


async def test_a_failure_that_the_function_caught_is_raised_again(attempts: Attempts) -> None:
    """Otherwise a later attempt would take the other path, beside the recorded steps of the first."""

    async def function(context: ToolContext, error: Exception | None) -> str:
        try:
            await context.step(attempts.step(error=error), "charge")
        except Refused as refused:
            await context.step(attempts.step(), "refund")
            return str(refused)
        return "charged"

    assert await function(attempts.context(), Refused("no funds")) == "no funds"
    assert await function(attempts.context(), None) == "no funds"
    assert attempts.ran == ["charge", "refund"]


class Declined(Refused):
    """An exception with a constructor of its own, which no message alone can call."""

    def __init__(self, amount: int, *, reason: str) -> None:
        super().__init__(f"{amount} were declined: {reason}")


async def test_an_exception_with_its_own_constructor_is_of_its_class_again(attempts: Attempts) -> None:
    context = attempts.context()
    with pytest.raises(Declined):
        await context.step(attempts.step(error=Declined(5, reason="no funds")), 1)
    await context.step(attempts.step(), 2)
    with pytest.raises(Declined, match="5 were declined: no funds"):
        await attempts.context().step(attempts.step(), 1)


async def test_an_exception_of_an_unknown_class_is_step_failed(attempts: Attempts) -> None:
    local = type("Local", (Exception,), {"__module__": "nowhere"})
    context = attempts.context()
    with pytest.raises(local):
        await context.step(attempts.step(error=local("gone")), 1)
    await context.step(attempts.step(), 2)
    with pytest.raises(StepFailed, match="gone"):
        await attempts.context().step(attempts.step(), 1)


async def test_a_step_that_may_run_once_is_not_repeated_after_a_crash(attempts: Attempts) -> None:
    async def charge() -> None:
        attempts.ran.append("charge")

    begun = StepEntry(position="1", name=name_of(charge), digest=digest_of(((), {})), state="started")
    await attempts.record(begun)
    with pytest.raises(ToolFailure, match="at most once") as unknown:
        await attempts.context().step(charge, at_most_once=True)
    assert unknown.value.envelope.category is ErrorCategory.OUTCOME_UNKNOWN
    assert attempts.ran == []


async def test_a_step_that_may_run_once_is_recorded_before_it_runs_and_fails_for_good(attempts: Attempts) -> None:
    seen: list[str] = []

    async def charge() -> None:
        seen.extend(entry.state for entry in attempts.state.page(0).entries)
        raise Refused("declined")

    for _ in range(2):
        context = attempts.context()
        with pytest.raises(Refused, match="declined") as raised:
            await context.step(charge, at_most_once=True)
        assert attempts.journal.is_final(raised.value)
    assert seen == ["started"]


async def test_waits_of_concurrent_branches_are_collected_and_steps_finish_first(attempts: Attempts) -> None:
    context, slow = attempts.context(), asyncio.Event()

    async def slowly() -> int:
        await slow.wait()
        attempts.ran.append("slow")
        return 1

    work = asyncio.ensure_future(asyncio.gather(context.step(slowly), context.sleep(3), context.approve("Pay?")))
    with pytest.raises(Suspended):
        await work
    assert [wait.kind for wait in attempts.journal.waits] == ["sleep", "approve"]
    with pytest.raises(Suspended):
        await context.step(attempts.step(), "after the wait, in a function that ignores it")
    finished = asyncio.ensure_future(attempts.journal.finish_steps())
    slow.set()
    await finished
    assert [entry.position for entry in attempts.state.page(0).entries] == ["1"]


async def test_a_task_group_does_not_interrupt_steps_when_a_branch_waits(attempts: Attempts) -> None:
    context, slow = attempts.context(), asyncio.Event()

    async def slowly() -> int:
        await slow.wait()
        return 1

    with pytest.raises(BaseExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(context.step(slowly, at_most_once=True))
            group.create_task(context.sleep(3))
    slow.set()
    await attempts.journal.finish_steps()
    assert [entry.state for entry in attempts.state.page(0).entries] == ["started", "done"]


async def test_a_step_within_a_step_is_refused(attempts: Attempts) -> None:
    context = attempts.context()

    async def outer() -> None:
        await context.step(attempts.step(), 1)

    with pytest.raises(RuntimeError, match="began another step"):
        await context.step(outer)


async def test_blocking_steps_have_the_same_positions(attempts: Attempts) -> None:
    def twice(number: int) -> int:
        attempts.ran.append(number)
        return 2 * number

    for _ in range(2):
        context = SyncToolContext.of(attempts.context())
        assert [await asyncio.to_thread(context.step, twice, number) for number in (1, 2)] == [2, 4]
    assert attempts.ran == [1, 2]


@pytest.mark.parametrize("value", [object(), "x" * 2_000_000])
async def test_a_result_that_cannot_be_kept_fails_the_step(attempts: Attempts, value: object) -> None:
    with pytest.raises(ToolFailure, match=r"The step .*step returned"):
        await attempts.context().step(attempts.step(value))


async def test_the_journal_is_read_in_pages(attempts: Attempts) -> None:
    context = attempts.context()
    for number in range(4):
        await context.step(attempts.step("x" * 300_000), number)
    first = attempts.state.page(0)
    assert (len(first.entries), first.next) == (2, 2)
    rest = attempts.state.page(2)
    assert (len(rest.entries), rest.next) == (2, None)


async def test_without_a_task_steps_and_sleeps_run_and_questions_are_refused() -> None:
    context = ToolContext("task-1", "me")
    await context.sleep(0)
    assert context.key("charge") == "task-1/charge"
    with pytest.raises(RuntimeError, match=r"outlast\.testing"):
        await context.ask("Which colour?")


def test_the_blocking_context_is_for_functions_without_async() -> None:
    with pytest.raises(ValueError, match="SyncToolContext is for functions without"):

        @tool
        async def wrong(ctx: SyncToolContext) -> None: ...


async def test_digests_are_recorded_with_a_key_and_match_after_a_rotation_and_from_before_keys(
    attempts: Attempts,
) -> None:
    def digests(*keys: str) -> Callable[[str], tuple[str, ...]]:
        return lambda digest: tuple(f"{key}:{digest}" for key in keys)

    async def run(argument: str, keyed: Callable[[str], tuple[str, ...]] | None) -> None:
        attempts.journal = Journal(attempts.state.page(0).entries, attempts.record, digests=keyed)
        attempts.journal.enter()
        await ToolContext("task-1", "me", journal=attempts.journal).step(attempts.step(), argument)

    await run("1234", digests("old"))
    (entry,) = attempts.state.page(0).entries
    assert entry.digest.startswith("old:")
    await run("1234", digests("new", "old"))
    with pytest.raises(ToolFailure, match="other arguments"):
        await run("1235", digests("new", "old"))
    assert attempts.ran == ["1234"]

    attempts.state = JournalState()
    await run("1234", None)
    await run("1234", digests("new"))
    assert attempts.ran == ["1234", "1234"]
