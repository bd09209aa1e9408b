"""Masks: which tools are active, for every mask that a client may send."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from outlast.workflows.contracts.tool_masks import (
    Outcome,
    Reason,
    ToolMask,
    canonical,
    is_active,
    masked_tool,
    normalised,
    resolve,
)

NAMES = st.sampled_from([f"tool-{letter}" for letter in "abcdef"])
AVAILABLE = st.lists(NAMES, max_size=8)
ANY_VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.booleans())
SENT = st.none() | st.dictionaries(NAMES | st.text(max_size=5), ANY_VALUE, max_size=8)
ALIASES = {"old-a": "tool-a", "old-b": "tool-b"}


class Request(BaseModel):
    mask: ToolMask = None


@given(SENT)
def test_entries_that_are_not_boolean_are_dropped_and_an_empty_mask_is_none(sent: Any) -> None:
    kept = {name: value for name, value in (sent or {}).items() if value is True or value is False}
    assert normalised(sent) == (kept or None)
    assert normalised(normalised(sent)) == normalised(sent)
    assert Request(mask=sent).mask == normalised(sent)


@pytest.mark.parametrize("sent", [[], "call-actor", 1, True, [["call-actor", True]]])
def test_what_is_no_object_is_refused(sent: Any) -> None:
    with pytest.raises(ValidationError, match="must be an object of tool names and booleans"):
        Request(mask=sent)


@given(AVAILABLE)
def test_without_a_mask_everything_is_active(available: list[str]) -> None:
    for mask in (None, {}):
        resolution = resolve(available, mask)
        assert resolution.active == tuple(dict.fromkeys(available))
        assert (dict(resolution.skipped), resolution.outcome) == ({}, Outcome.UNMASKED)


@given(AVAILABLE, SENT)
def test_nothing_is_active_on_the_last_step(available: list[str], mask: Any) -> None:
    resolution = resolve(available, mask, is_last_step=True)
    assert resolution.active == ()
    assert dict(resolution.skipped) == dict.fromkeys(available, Reason.LAST_STEP)
    assert resolution.outcome is Outcome.LAST_STEP


@given(AVAILABLE, SENT)
def test_active_are_the_available_tools_whose_mask_is_true(available: list[str], mask: Any) -> None:
    resolution = resolve(available, mask)
    if normalised(mask) is None:
        return
    assert set(resolution.active) == {name for name in available if mask.get(name) is True}
    assert resolution.outcome is (Outcome.MASKED if resolution.active else Outcome.NOTHING)
    for name, reason in resolution.skipped.items():
        assert reason is (Reason.DISABLED if mask.get(name) is False else Reason.NOT_NAMED)


@given(AVAILABLE, SENT, st.randoms())
def test_every_tool_is_active_or_skipped_in_the_order_of_those_there_are(
    available: list[str], mask: Any, random: Any
) -> None:
    resolution = resolve(available, mask)
    names = list(dict.fromkeys(available))
    assert sorted([*resolution.active, *resolution.skipped]) == sorted(names)
    assert list(resolution.active) == [name for name in names if name in resolution.active]
    assert list(resolution.skipped) == [name for name in names if name in resolution.skipped]
    shuffled = list((mask or {}).items())
    random.shuffle(shuffled)
    assert resolve(available, dict(shuffled)) == resolution


@given(AVAILABLE, st.dictionaries(NAMES | st.sampled_from(list(ALIASES)), st.booleans(), min_size=1))
def test_older_names_count_and_the_own_name_wins(available: list[str], mask: dict[str, bool]) -> None:
    resolution = resolve(available, mask, aliases=ALIASES)
    older = {own: old for old, own in ALIASES.items()}
    for name in available:
        says = mask.get(name, mask.get(older.get(name, ""), False))
        assert (name in resolution.active) is says
        assert is_active(name, canonical(mask, ALIASES)) is says


@given(AVAILABLE, SENT)
def test_a_tool_that_is_not_active_is_refused_with_those_that_are(available: list[str], mask: Any) -> None:
    resolution = resolve(available, mask)
    for name in resolution.skipped:
        envelope = masked_tool(name, resolution)
        assert (envelope.category, envelope.retryable, envelope.tool) == ("permission", False, name)
        assert envelope.allowed_tools == resolution.active
        assert envelope.hint


def test_the_log_says_what_was_selected_what_was_skipped_and_why() -> None:
    assert resolve(["a", "b", "c"], {"a": True, "b": False}).facts() == {
        "mask_outcome": "masked",
        "selected": ["a"],
        "skipped": {"b": "disabled", "c": "not_named"},
    }
