"""Ids of tool calls: those that fit stay, others are replaced, always in the same way."""

import pytest

from outlast.activities.conversations.contracts import ModelMessage, ToolCallPart, ToolResultPart
from outlast.activities.llm.providers.requests import with_portable_calls


def step(*ids: str) -> list[ModelMessage]:
    calls = tuple(ToolCallPart(id=one, name="t", arguments={}, raw_arguments="{}") for one in ids)
    results = tuple(ToolResultPart(call_id=one, name="t", text=f"{index}") for index, one in enumerate(ids))
    return [ModelMessage(role="assistant", parts=calls), ModelMessage(role="tool", parts=results)]


def ids_of(messages: tuple[ModelMessage, ...]) -> list[str]:
    return [part.id for message in messages for part in message.parts if isinstance(part, ToolCallPart)]


def answered(messages: tuple[ModelMessage, ...]) -> list[str]:
    return [part.call_id for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


def test_ids_that_fit_stay() -> None:
    messages = (*step("call_1", "toolu_01-x"), *step("call_2"))
    assert with_portable_calls(messages) == messages


def test_ids_that_do_not_fit_or_repeat_are_replaced_with_those_of_their_results() -> None:
    renamed = with_portable_calls((*step("functions.say:0", "x" * 64, "same", "same"), *step("same")))
    ids = ids_of(renamed)
    assert ids == answered(renamed)
    assert len(set(ids)) == 5
    assert all(len(one) <= 40 and one.replace("_", "").isalnum() for one in ids)
    assert ids[2] == "same"


def test_a_longer_conversation_begins_with_the_same_ids() -> None:
    before = [*step("functions.say:0"), *step("functions.say:0")]
    shorter = with_portable_calls(before)
    assert with_portable_calls((*before, *step("functions.say:0")))[: len(shorter)] == shorter


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("get weather!", "get_weather"),
        ("", "unnamed"),
        ("💥", "unnamed"),
        ("n" * 70, "n" * 64),
        ("search_1-a", "search_1-a"),
    ],
)
def test_a_name_that_no_tool_can_have_is_replaced_in_the_call_and_its_result(name: str, sent: str) -> None:
    call = ToolCallPart(id="call_1", name=name, arguments={}, raw_arguments="{}")
    result = ToolResultPart(call_id="call_1", name=name, text="There is no tool of this name.")
    messages = (ModelMessage(role="assistant", parts=(call,)), ModelMessage(role="tool", parts=(result,)))
    assert [part.name for message in with_portable_calls(messages) for part in message.parts] == [sent, sent]  # type: ignore[union-attr]
