"""Streamed text of one step, whichever attempt says it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.api.errors import BadRequest
from outlast.api.temporal.session_events import NamedData, StepText, position_of


def read(told: list[NamedData]) -> str:
    """What a reader has who knows nothing but to drop the text when told so."""
    text = ""
    for name, data in told:
        text = "" if name == "retry" else text + str(data["text"])
    return text


def test_a_repeated_attempt_that_says_the_same_is_not_heard_twice() -> None:
    step = StepText(1)
    told = [
        *step.add_delta(1, "One "),
        *step.add_delta(2, "O"),
        *step.add_delta(2, "ne two"),
        *step.finish(2, "One two."),
    ]
    assert [name for name, _ in told] == ["text-delta"] * 3
    assert read(told) == "One two."


def test_an_attempt_that_says_something_else_replaces_the_text() -> None:
    step = StepText(1)
    told = [*step.add_delta(1, "One"), *step.add_delta(2, "Two"), *step.add_delta(1, " late"), *step.finish(2, "Two")]
    assert [name for name, _ in told] == ["text-delta", "retry", "text-delta"]
    assert read(told) == "Two"


def test_an_attempt_that_says_less_replaces_the_text() -> None:
    step = StepText(1)
    assert read([*step.add_delta(1, "One two"), *step.add_delta(2, "One"), *step.finish(2, "One")]) == "One"


@given(st.lists(st.tuples(st.integers(1, 3), st.text("ab", max_size=3)), max_size=8), st.text("ab", max_size=6))
def test_a_reader_always_ends_with_the_steps_text(pieces: list[tuple[int, str]], final: str) -> None:
    step = StepText(1)
    told = [event for attempt, text in pieces for event in step.add_delta(attempt, text)]
    told += [*step.finish(3, final), *step.add_delta(9, "too late")]
    assert read(told) == final


def test_ids_lead_back_to_their_place() -> None:
    assert position_of("1.20.3") == (1, 20, 3)
    assert position_of(None) == (0, 0, 0)
    with pytest.raises(BadRequest):
        position_of("1.x.3")
