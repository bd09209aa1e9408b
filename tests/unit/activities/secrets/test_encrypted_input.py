"""Secret values inside an Actor's input."""

import pytest
from pydantic import JsonValue, SecretStr

from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import MASK, SecretSealer, is_sealed, masked, open_values, seal_value, unmasked

SEALER = SecretSealer.ephemeral()


def test_a_sealed_value_comes_back_wherever_it_stands() -> None:
    sealed = seal_value({"deep": ["secret", 1]}, SEALER, purpose="me")
    opened = open_values({"a": [sealed], "b": 2}, SEALER, purpose="me")
    assert opened == {"a": [{"deep": ["secret", 1]}], "b": 2}


@pytest.mark.parametrize("forged", ["text", {}, {"key_id": "x"}, None])
def test_a_mark_that_a_caller_has_written_is_refused_for_good(forged: JsonValue) -> None:
    with pytest.raises(SealError):
        open_values({"$sealed": forged}, SEALER, purpose="me")


def test_a_callers_sealed_token_does_not_open_as_an_input() -> None:
    token: JsonValue = SEALER.seal(SecretStr("token"), purpose="me").model_dump(mode="json")
    with pytest.raises(SealError):
        open_values({"password": {"$sealed": token}}, SEALER, purpose="me")


def sealed(value: JsonValue) -> JsonValue:
    return seal_value(value, SEALER, purpose="me")


def test_whoever_reads_a_document_sees_a_mask_for_every_sealed_value() -> None:
    key, whole = sealed("key"), sealed({"deep": ["secret", 1]})
    document: JsonValue = {"a": [key, {"b": whole}], "c": "plain", "d": None, "e": 1}
    assert masked(document) == {"a": [MASK, {"b": MASK}], "c": "plain", "d": None, "e": 1}
    assert masked(key) == MASK


@pytest.mark.parametrize("value", [{}, {"$sealed": 1, "more": 2}, {"sealed": 1}, [], "$sealed", True])
def test_what_is_not_sealed_is_not_masked(value: JsonValue) -> None:
    assert masked(value) == value
    assert not (isinstance(value, dict) and is_sealed(value))


def test_a_mask_left_in_place_is_the_sealed_value_again() -> None:
    original: JsonValue = {"actor": "a/b", "input": {"key": sealed("key"), "list": [1, sealed("two")], "note": "old"}}
    shown = masked(original)
    assert unmasked(shown, original) == original
    assert isinstance(shown, dict)
    assert isinstance(shown["input"], dict)
    shown["input"]["note"] = "new"
    edited = open_values(unmasked(shown, original), SEALER, purpose="me")
    assert edited == {"actor": "a/b", "input": {"key": "key", "list": [1, "two"], "note": "new"}}


def test_a_new_value_takes_the_place_of_a_sealed_one() -> None:
    original: JsonValue = {"key": sealed("old"), "other": sealed("other")}
    edited: JsonValue = {"key": sealed("new"), "other": MASK}
    assert open_values(unmasked(edited, original), SEALER, purpose="me") == {"key": "new", "other": "other"}
    assert unmasked({}, original) == {}


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param({"key": "public", "note": MASK}, id="another field"),
        pytest.param({"deep": {"key": MASK}}, id="deeper"),
        pytest.param({"list": [1, 2, MASK]}, id="a longer list"),
        pytest.param({"note": {"key": MASK}}, id="where a text was"),
        pytest.param([MASK], id="a list where an object was"),
        pytest.param({"key": f"{MASK} "}, id="more than the mask"),
        pytest.param(MASK, id="the whole"),
    ],
)
def test_a_mask_elsewhere_is_only_a_word(edited: JsonValue) -> None:
    """So that nobody moves a secret to where it would be read."""
    original: JsonValue = {"key": sealed("key"), "note": "plain", "deep": {"other": 1}, "list": [1, 2]}
    assert unmasked(edited, original) == edited
