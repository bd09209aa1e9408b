"""`outlast.testing`: calls of tools in process, with scripted answers and crashes, and the examples of the docs."""

from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from docs.examples.test_hello_tools import *  # noqa: F403 (the examples run as tests of this module)
from outlast import CallFailed, SyncToolContext, ToolContext, ToolFailure, tool
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.testing import ToolTest, Unanswered, call
from outlast.workflows.tools.framework.results import as_result


class Choice(BaseModel):
    colour: Literal["red", "blue"]
    count: int = 1


effects: list[str] = []


@pytest.fixture(autouse=True)
def no_effects() -> None:
    effects.clear()


def effect(name: str) -> str:
    effects.append(name)
    return name


@tool
async def trip(ctx: ToolContext, fast: bool = False) -> str:
    """Ask, sleep, and act."""
    choice = await ctx.ask("Which car?", Choice)
    days = await ctx.ask("How many days?", int)
    await ctx.step(effect, "book")
    await ctx.sleep(timedelta(days=days))
    await ctx.step(effect, "return", at_most_once=True)
    return f"{choice.count} {choice.colour} for {days}"


@tool(approval=lambda args: args.amount > 10)
def pay(amount: int, ctx: SyncToolContext) -> int:
    """Pay."""
    ctx.step(effect, "pay")
    return amount


async def test_questions_and_sleeps_are_scripted() -> None:
    test = ToolTest(answers=[Choice(colour="red", count=2), 3])
    assert (await test.call(trip)).text == "2 red for 3"
    assert test.asked == ["Which car?", "How many days?"]
    assert test.slept == timedelta(days=3)
    assert effects == ["book", "return"]


@pytest.mark.parametrize(("after", "within", "expected"), [(1, 0, ["book", "return"]), (0, 1, ["book", "book"])])
async def test_a_crash_repeats_what_was_not_recorded(after: int, within: int, expected: list[str]) -> None:
    test = ToolTest(answers=[{"colour": "red"}, 1], crash_after=["effect"] * after, crash_in=["effect"] * within)
    await test.call(trip)
    assert effects[:2] == expected


async def test_a_crash_in_a_step_that_may_run_once_is_an_unknown_outcome() -> None:
    @tool
    async def once(ctx: ToolContext) -> str:
        return await ctx.step(effect, "once", at_most_once=True)

    answer = await ToolTest(crash_in=["effect"]).call(once)
    assert answer.error is not None
    assert answer.error.category is ErrorCategory.OUTCOME_UNKNOWN
    assert effects == ["once"]


async def test_a_question_without_a_script_says_what_to_write() -> None:
    with pytest.raises(AssertionError, match=r"Which car.*ToolTest\(answers="):
        await call(trip)


async def test_a_declined_question_is_an_error_of_the_call() -> None:
    answer = await ToolTest(answers=[Unanswered.DECLINED]).call(trip)
    assert answer.error is not None
    assert answer.error.category is ErrorCategory.PERMISSION


@pytest.mark.parametrize(("amount", "approvals", "paid"), [(5, [], True), (50, [True], True), (50, [False], False)])
async def test_the_approval_of_a_tool_is_scripted(amount: int, approvals: list[bool], paid: bool) -> None:
    answer = await ToolTest(approvals=approvals).call(pay, amount=amount)
    assert answer.is_error is not paid
    assert effects == (["pay"] if paid else [])


async def test_an_expected_failure_has_its_category_and_the_tool() -> None:
    @tool(retries=0)
    def missing() -> str:
        """Fail."""
        raise ToolFailure.of(ErrorCategory.NOT_FOUND, "There is no such order.", hint="Look.")

    answer = await call(missing)
    assert answer.error is not None
    assert (answer.error.category, answer.error.tool) == (ErrorCategory.NOT_FOUND, "missing")


async def test_retries_are_those_of_the_tool() -> None:
    @tool(retries=3)
    async def never() -> str:
        """Fail."""
        effect("try")
        raise ConnectionError

    assert (await call(never)).is_error
    assert effects == ["try"] * 4


class Receipt(BaseModel):
    number: str


@tool
def charge(amount: int, ctx: SyncToolContext) -> Receipt:
    """Charge."""
    return Receipt(number=ctx.step(effect, f"charge {amount}"))


@tool
async def shop(ctx: ToolContext, amount: int = 7) -> str:
    """Charge between two steps, and look for a coupon."""
    await ctx.step(effect, "reserve")
    receipt = await ctx.call(charge, amount=amount)
    try:
        coupon = (await ctx.call("find-coupon", {"of": receipt.number})).text
    except CallFailed as error:
        coupon = f"no coupon ({error.envelope.category})"
    return f"{receipt.number}, {coupon}"


async def test_a_called_function_runs_and_another_tool_is_scripted() -> None:
    test = ToolTest(calls={"find-coupon": "ten off"}, crash_after=["charge"], crash_in=["effect"])
    assert (await test.call(shop)).text == "charge 7, ten off"
    assert effects == ["reserve", "reserve", "charge 7"]
    assert test.called == [("charge", {"amount": 7}), ("find-coupon", {"of": "charge 7"})]


async def test_the_outcomes_of_calls_are_scripted() -> None:
    failure = ToolFailure.of(ErrorCategory.NOT_FOUND, "None.")
    test = ToolTest(calls={"charge": [Receipt(number="r-1")], "find-coupon": [failure]})
    assert (await test.call(shop)).text == "r-1, no coupon (not_found)"
    assert effects == ["reserve"]


async def test_a_failure_of_a_call_that_is_not_caught_is_the_answer() -> None:
    test = ToolTest(calls={"charge": [ToolFailure.of(ErrorCategory.PAYMENT, "Declined.")]})
    error = (await test.call(shop)).error
    assert error is not None
    assert (error.category, error.message, error.tool) == (ErrorCategory.PAYMENT, "Declined.", "shop")
    assert test.attempts == 2


async def test_wrong_arguments_of_a_call_are_named_in_the_message() -> None:
    wrong = [Violation(path=f"/field{number}", message="Field required") for number in range(5)]
    envelope = ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION, "charge", "The arguments of charge do not fit its schema.", violations=tuple(wrong)
    )
    error = (await ToolTest(calls={"charge": [ToolFailure(envelope)]}).call(shop)).error
    assert error is not None
    named = "/field0: Field required; /field1: Field required; /field2: Field required; and 2 more."
    assert error.message == f"The arguments of charge do not fit its schema: {named}"
    assert error.violations is None  # of another tool's arguments


async def test_a_call_without_a_script_says_what_to_write() -> None:
    with pytest.raises(AssertionError, match=r"find-coupon.*ToolTest\(calls="):
        await call(shop)


async def test_arguments_that_are_not_json_are_named(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def wrong(ctx: ToolContext) -> str:
        return (await ctx.call("find-coupon", of=object())).text

    assert (await call(wrong)).is_error
    assert "ctx.call('find-coupon'): The arguments cannot be written as JSON: the value at /of" in caplog.text


@pytest.mark.parametrize(
    ("tool_name", "given", "named", "example"),
    [
        (None, (7, 8), {}, "ctx.call(add, a=..., b=...)"),
        (None, (7,), {"a": 1}, "ctx.call(add, b=..., a=...)"),
        (None, (7, 8, 9), {}, "ctx.call(add, a=..., b=...)"),
        ("find-coupon", ("r-1",), {}, "ctx.call('find-coupon', name=...)"),
    ],
)
async def test_arguments_without_names_are_refused_with_an_example(
    caplog: pytest.LogCaptureFixture, tool_name: str | None, given: tuple[Any, ...], named: dict[str, Any], example: str
) -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    @tool
    def blocking(ctx: SyncToolContext) -> Any:
        called: Any = tool_name or add
        return ctx.call(called, *given, **named)

    @tool
    async def concurrent(ctx: ToolContext) -> Any:
        called: Any = tool_name or add
        return await ctx.call(called, *given, **named)

    assert (await call(blocking)).is_error
    assert (await call(concurrent)).is_error
    assert caplog.text.count(f"arguments are given by name. Write {example}.") >= 2


async def test_an_answer_of_another_type_is_a_failed_call() -> None:
    error = (await ToolTest(calls={"charge": as_result({"no": 1})}).call(shop)).error
    assert error is not None
    assert (error.category, "does not fit the return type" in error.message) == (ErrorCategory.VALIDATION, True)


async def test_a_tool_with_a_client_phase_needs_a_stack() -> None:
    from docs.examples.hello_tools import TOOLS  # noqa: PLC0415

    with pytest.raises(TypeError, match="outlast_stack"):
        await call(next(one for one in TOOLS if one.client is not None))
