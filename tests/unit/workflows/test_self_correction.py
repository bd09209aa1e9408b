"""Identical failures: one reminder after the second, a stop before a model goes round in circles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workflows.contracts.self_correction import CallOutcome, SelfCorrection, Verdict, observe, verdict_on

KINDS = {"a": False, "b": False, "x": True, "y": True}
OUTCOMES = st.lists(st.sampled_from([None, *KINDS]), max_size=40)


def outcome(kind: str | None) -> CallOutcome:
    return CallOutcome(tool="t", signature=kind, retryable=KINDS.get(kind or "", False))


def verdicts(kinds: list[str | None]) -> list[Verdict]:
    state, found = SelfCorrection(), list[Verdict]()
    for kind in kinds:
        state = observe(state, outcome(kind))
        found.append(verdict_on(state))
    return found


@pytest.mark.parametrize(
    ("kinds", "actions"),
    [
        ([None, None], ["none", "none"]),
        (["a"], ["none"]),
        (["a", "a"], ["none", "stop"]),
        (["x", "x", "x", "x"], ["none", "reminder", "none", "stop"]),
        (["a", "b", "a"], ["none", "none", "stop"]),
        (["x", None, "x"], ["none", "none", "reminder"]),
        (["x", "y", "y", "x"], ["none", "none", "reminder", "reminder"]),
    ],
)
def test_what_follows_from_failures(kinds: list[str | None], actions: list[str]) -> None:
    assert [said.action for said in verdicts(kinds)] == actions


def test_a_reminder_says_to_read_the_error_and_to_try_another_tool() -> None:
    said = verdicts(["x", "x"])[-1]
    assert (said.tool, said.count) == ("t", 2)
    assert said.reminder is not None
    assert "Read the error" in said.reminder
    assert "try another tool" in said.reminder


@given(OUTCOMES)
def test_there_is_one_reminder_per_kind_after_its_second_failure(kinds: list[str | None]) -> None:
    said = verdicts(kinds)
    for kind in KINDS:
        own = [verdict_ for verdict_, other in zip(said, kinds, strict=True) if other == kind]
        assert [index for index, verdict_ in enumerate(own) if verdict_.reminder] == ([1] if len(own) > 1 else [])


@given(OUTCOMES)
def test_a_turn_is_stopped_after_two_that_cannot_pass_or_four_that_may(kinds: list[str | None]) -> None:
    seen: dict[str, int] = {}
    for kind, said in zip(kinds, verdicts(kinds), strict=True):
        if kind is None:
            assert said == Verdict()
            continue
        seen[kind] = seen.get(kind, 0) + 1
        assert (said.action == "stop") is (seen[kind] >= (4 if KINDS[kind] else 2))


@given(st.lists(st.text(min_size=1, max_size=3), max_size=300))
def test_the_state_is_bounded_and_the_same_after_a_journey(kinds: list[str]) -> None:
    state = SelfCorrection()
    for kind in kinds:
        state = SelfCorrection.model_validate_json(observe(state, outcome(kind)).model_dump_json())
    assert len(state.failures) <= 200
    if kinds:
        assert state.latest is not None
        assert state.latest.signature == kinds[-1]
