"""What may stand in a log: secret types are masked whatever is in them, texts lose what looks like a credential."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel, Field, JsonValue, SecretBytes, SecretStr

from outlast.activities.contracts import Caller
from outlast.activities.secrets import SecretSealer, seal_value
from outlast.worker.logs import without_secrets

SECRET = "hunter2"
"""Looks like nothing in particular, so that only its type tells."""
TOKEN = "apify_api_0123456789-abc_DEF"
SEALER = SecretSealer.ephemeral()
SEALED = SEALER.seal(SecretStr(SECRET), purpose="me")
SEALED_VALUE: JsonValue = seal_value(SECRET, SEALER, purpose="me")


class Login(BaseModel):
    user: str
    password: SecretStr
    backup: SecretStr | None = None


class Account(BaseModel):
    logins: list[Login]
    by_name: dict[str, Login] = Field(alias="byName")
    note: str = ""


@dataclass(frozen=True)
class Unknown:
    token: str = TOKEN


@pytest.mark.parametrize("secret", [SecretStr(SECRET), SecretStr(""), SecretBytes(SECRET.encode()), SEALED])
def test_a_secret_type_is_masked_whatever_is_in_it(secret: object) -> None:
    assert without_secrets(secret) == "[redacted]"


def test_a_sealed_value_inside_a_document_is_masked() -> None:
    document = {"input": {"key": SEALED_VALUE, "more": [SEALED_VALUE, 1]}, "$sealed": "only a word beside others"}
    masked = {"input": {"key": "[redacted]", "more": ["[redacted]", 1]}, "$sealed": "only a word beside others"}
    assert without_secrets(document) == masked


@pytest.mark.parametrize(
    "nest",
    [
        pytest.param(lambda value: [value], id="list"),
        pytest.param(lambda value: (1, value), id="tuple"),
        pytest.param(lambda value: {value}, id="set"),
        pytest.param(lambda value: frozenset([value]), id="frozenset"),
        pytest.param(lambda value: {"key": value}, id="dict"),
        pytest.param(lambda value: OrderedDict(key=value), id="ordered dict"),
        pytest.param(lambda value: MappingProxyType({"key": value}), id="read-only mapping"),
        pytest.param(lambda value: {"a": [{"b": ({"c": value},)}]}, id="deep"),
    ],
)
@pytest.mark.parametrize("secret", [SecretStr(SECRET), SEALED, TOKEN])
def test_secrets_are_found_wherever_they_are_nested(nest: Any, secret: object) -> None:
    said = repr(without_secrets(nest(secret)))
    assert "[redacted]" in said
    assert not {SECRET, TOKEN, SEALED.ciphertext} & set(said.split("'"))
    assert "SecretStr" not in said


def test_models_are_told_field_by_field_and_keep_what_is_no_secret() -> None:
    login = Login(user="ann", password=SecretStr(SECRET))
    account = Account(logins=[login], byName={"ann": login}, note=f"Her token is {TOKEN}")
    told = {"user": "ann", "password": "[redacted]", "backup": None}
    assert without_secrets(account) == {
        "logins": [told],
        "by_name": {"ann": told},
        "note": "Her token is [redacted]",
    }


def test_a_caller_is_named_and_its_token_is_not() -> None:
    said = without_secrets({"caller": Caller(id="key:ann", apify_token=SEALED)})
    assert isinstance(said, dict)
    assert said["caller"]["id"] == "key:ann"
    assert said["caller"]["apify_token"] == "[redacted]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing to hide", "nothing to hide"),
        (f"with {TOKEN} in it", "with [redacted] in it"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: [redacted]"),
        ("https://ann:hunter22@a.example/x", "https://[redacted]@a.example/x"),
        ("password=hunter2hunter2&x=1", "[redacted]&x=1"),
    ],
)
def test_texts_lose_what_looks_like_a_credential(text: str, told: str) -> None:
    assert without_secrets(text) == told


@pytest.mark.parametrize("value", [None, True, 0, 1.5, {}, []])
def test_what_can_hold_no_secret_stays_as_it_is(value: object) -> None:
    assert without_secrets(value) == value


def test_keys_are_kept_and_values_of_any_key_are_looked_at() -> None:
    entries: Mapping[object, object] = {1: SecretStr(SECRET), "password": "x", ("a", 2): [TOKEN]}
    assert without_secrets(entries) == {1: "[redacted]", "password": "x", ("a", 2): ["[redacted]"]}


@pytest.mark.parametrize(
    "value",
    [
        ValueError(f"refused {TOKEN}", SecretStr(SECRET)),
        Unknown(),
        TOKEN.encode(),
        [ValueError({"key": Unknown()})],
    ],
)
def test_what_is_known_only_by_its_text_is_told_without_its_secrets(value: object) -> None:
    """An exception, an object of somebody else, bytes: renderers write their representation."""
    said = str(without_secrets(value))
    assert "[redacted]" in said
    assert TOKEN not in said
    assert SECRET not in said
