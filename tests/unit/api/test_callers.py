"""Who a bearer token belongs to, as far as that needs no platform; integration tests ask the sandbox."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.api.access.callers import CallerResolver
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import ALL_BUT_ADMIN, LOCAL, Principal
from outlast.api.errors import Unauthenticated
from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789ab"


def settings(**given: object) -> ApiSettings:
    return ApiSettings.model_validate({"accept_apify_tokens": False, **given})


def resolver(**given: object) -> CallerResolver:
    sealer = SecretSealer.ephemeral()
    platform = ApifyPlatform(api_base_url="http://127.0.0.1:9", operator_token=None, sealer=sealer)
    found = settings(**given)
    return CallerResolver(found, PolicySource(found.policy_file, base=found.policy), platform, sealer)


async def test_each_key_is_a_caller_of_its_own() -> None:
    """Both use the server's account, so each reaches its own things there."""
    known = resolver(api_keys=f"alice:{ALICE}, bob:{BOB}")
    assert await known.resolve(SecretStr(ALICE)) == Principal(Caller(id="key:alice", reach="own"), ALL_BUT_ADMIN)
    assert (await known.resolve(SecretStr(BOB))).caller == Caller(id="key:bob", reach="own")


@pytest.mark.parametrize("bearer", [ALICE[:-1], ALICE + "x", "", "alice", f"alice:{ALICE}", "é" * 20])
async def test_any_other_token_is_refused(bearer: str) -> None:
    with pytest.raises(Unauthenticated):
        await resolver(api_keys=f"alice:{ALICE}").resolve(SecretStr(bearer))


async def test_without_a_token_only_a_loopback_api_without_keys_answers() -> None:
    assert await resolver().resolve(None) == LOCAL
    for known in (resolver(api_keys=f"alice:{ALICE}"), resolver(api_host="0.0.0.0")):
        with pytest.raises(Unauthenticated, match="Authorization: Bearer"):
            await known.resolve(None)


@pytest.mark.parametrize("keys", ["alice", "alice:short", f":{ALICE}", f"alice:{ALICE},bob:short"])
def test_a_key_that_is_too_short_or_has_no_name_is_refused_without_quoting_it(keys: str) -> None:
    with pytest.raises(ValidationError, match="name:key") as caught:
        settings(api_keys=keys)
    assert ALICE not in caught.value.json(include_input=False)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"api_host": "127.0.0.1"}, False),
        ({"api_host": "::1"}, False),
        ({"api_host": "0.0.0.0"}, True),
        ({"api_host": "0.0.0.0", "api_keys": f"alice:{ALICE}"}, False),
        ({"api_host": "0.0.0.0", "accept_apify_tokens": True}, False),
    ],
)
def test_without_any_credential_the_api_listens_on_loopback_only(given: dict[str, object], refused: bool) -> None:
    problems = settings_problems(settings(**given))
    assert bool(problems) is refused
    assert all("OUTLAST_API_KEYS" in problem for problem in problems)


def test_one_key_for_two_callers_is_refused_without_quoting_it() -> None:
    with pytest.raises(ValidationError, match="two callers have the same key") as caught:
        settings(api_keys=f"alice:{ALICE},bob:{ALICE}")
    assert ALICE not in caught.value.json(include_input=False)


def test_settings_never_print_a_key() -> None:
    shown = repr(
        settings(api_keys=f"alice:{ALICE}", seal_keys="k:c2VjcmV0c2VjcmV0", apify_token="apify_api_0123456789")
    )
    for secret in (ALICE, "c2VjcmV0", "apify_api_0123456789"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        ({}, True),
        ({"accept_apify_tokens": True}, True),
        ({"api_keys": ""}, False),
        ({"api_keys": " , "}, False),
        ({"oauth_issuer": ""}, False),
        ({"api_keys": f"alice:{ALICE}"}, False),
        ({"api_host": "0.0.0.0"}, False),
    ],
)
async def test_a_setting_without_content_lets_nobody_in(given: dict[str, object], is_open: bool) -> None:
    known = resolver(**given)
    assert known.needs_credential is not is_open
    if not is_open:
        with pytest.raises(Unauthenticated):
            await known.resolve(None)


async def test_an_empty_file_of_keys_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").touch()
    monkeypatch.setenv("OUTLAST_API_KEYS_FILE", str(tmp_path / "keys"))
    assert resolver().needs_credential
