"""Who shares an account, and therefore reaches only what is its own."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from outlast.api.access.callers import SharedAccounts
from outlast.api.access.policy.source import PolicySource
from outlast.api.settings import ApiSettings

KEY = '[[keys]]\nid = "{0}"\ncaller = "key:{0}"\nhash = "scrypt$16384$8$1$c2FsdHNhbHRzYWx0c2FsdA==$' + "A" * 43 + '="\n'


def reach(folder: Path, text: str, *callers: str, keys: str | None = None, issuer: str | None = None) -> list[str]:
    path = folder / "policy.toml"
    path.write_text(text or 'anonymous = "none"')
    oauth = {"oauth_issuer": issuer, "oauth_audience": "https://outlast.example/mcp"} if issuer else {}
    settings = ApiSettings.model_validate(
        {"api_keys": keys, "policy_file": path, "apify_token": SecretStr("server-token"), **oauth}
    )
    shared = SharedAccounts(settings, PolicySource(path, base=settings.policy))
    return [shared.reach_of(caller) for caller in callers]


def test_who_is_alone_on_an_account_reaches_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = "ann:ann-has-this-long-key", "ann:ann-has-this-long-key,bob:bob-has-another-long-key"
    assert reach(tmp_path, "", "local", "apify:abc", "key:ann", keys=one) == ["account"] * 3
    assert reach(tmp_path, "", "apify:abc", "key:ann", "key:bob", keys=two) == ["account", "own", "own"]
    assert reach(tmp_path, KEY.format("cy"), "key:ann", "key:cy", keys=one) == ["own", "own"]
    issuer = "https://issuer.example"
    assert reach(tmp_path, "", "key:ann", "jwt:dan", keys=one, issuer=issuer) == ["own", "own"]
    monkeypatch.setenv("BOBS", "token-of-bob")
    own = '[callers."key:bob"]\napify_token_env = "BOBS"\n'
    assert reach(tmp_path, own, "key:ann", "key:bob", keys=two) == ["account", "account"]
    monkeypatch.setenv("BOBS", "server-token")
    assert reach(tmp_path, own, "key:ann", "key:bob", keys=two) == ["own", "own"]


def test_the_policy_says_otherwise(tmp_path: Path) -> None:
    two = "ann:ann-has-this-long-key,bob:bob-has-another-long-key"
    text = '[defaults]\nreach = "account"\n[callers."key:bob"]\nreach = "own"\n'
    assert reach(tmp_path, text, "key:ann", "key:bob", "local", keys=two) == ["account", "own", "account"]
