"""Tests of the tools of docs/writing-a-tool.md, as one writes them for tools of one's own."""

from docs.examples.hello_tools import balance, buy, buy_all, greet_all, hello_world
from outlast.testing import ToolTest, Unanswered, call


async def test_hello() -> None:
    """A tool is called in process."""
    answer = await call(hello_world, name="Ann")
    assert answer.text == "Hello, Ann!"


async def test_wrong_arguments_are_refused() -> None:
    """Arguments are checked as in a real call."""
    answer = await call(greet_all, names=[])
    assert answer.error is not None
    assert answer.error.category == "validation"


async def test_a_crash_after_the_charge_does_not_charge_again() -> None:
    """The worker dies after the charge."""
    test = ToolTest(steps={"reserve": "r-1", "charge": ["receipt-1"]}, approvals=[True], crash_after=["charge"])
    answer = await test.call(buy, item="a bicycle", card="tok_1", amount=300)
    assert answer.text == "Bought a bicycle: receipt receipt-1."
    assert test.ran == ["reserve", "charge"]
    assert test.attempts == 3  # up to the approval, up to the crash, and to the end


async def test_nothing_is_charged_without_the_approval() -> None:
    """The approval is refused, or its time is over."""
    for approval in ("Too expensive.", Unanswered.TIMEOUT):
        test = ToolTest(steps={"reserve": "r-1"}, approvals=[approval])
        answer = await test.call(buy, item="a bicycle", card="tok_1", amount=300)
        assert answer.is_error
        assert test.ran == ["reserve"]


async def test_the_key_of_the_bank_is_needed() -> None:
    """The tool declares a secret."""
    test = ToolTest(secrets={"BANK_KEY": "test-value"}, steps={"read_balance": 12.5})
    assert (await test.call(balance, account="1")).structured == {"result": 12.5}


async def test_a_failed_connection_is_tried_again() -> None:
    """A step fails once."""
    test = ToolTest(steps={"reserve": [ConnectionError("refused"), "r-1"], "charge": "receipt-1"})
    answer = await test.call(buy, item="a book", card="tok_1", amount=20)
    assert answer.text == "Bought a book: receipt receipt-1."
    assert test.attempts == 2


async def test_each_item_is_bought_once() -> None:
    """The worker dies after the first item was bought."""
    test = ToolTest(calls={"buy": ["Bought a cup.", "Bought a pot."]}, crash_after=["buy"])
    answer = await test.call(buy_all, items=["cup", "pot"], card="tok_1", amount=20)
    assert answer.structured == {"result": ["Bought a cup.", "Bought a pot."]}
    assert [arguments["item"] for _, arguments in test.called] == ["cup", "pot"]
