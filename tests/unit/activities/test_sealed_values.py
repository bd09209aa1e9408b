"""Secret values inside an Actor's input."""

import pytest
from pydantic import JsonValue, SecretStr

from activities.sealed_values import open_values, seal_value
from activities.secrets import SealError, SecretSealer

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
