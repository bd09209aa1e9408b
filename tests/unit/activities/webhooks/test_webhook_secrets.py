"""Which secrets sign after rotations, and what the secrets of webhooks are sealed for."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from outlast.activities.contracts import SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.activities.webhooks.contracts import MAX_SECRETS, WebhookEndpoint, WebhookSecret
from outlast.activities.webhooks.posting import webhook_purpose

NOW = datetime(2026, 11, 26, tzinfo=UTC)
DAY = timedelta(days=1)


def sealed(name: str) -> SealedSecret:
    return SealedSecret(key_id="k", ciphertext=name)


def endpoint() -> WebhookEndpoint:
    return WebhookEndpoint(url=sealed("url"), secrets=(WebhookSecret(sealed=sealed("first")),))


def signing(endpoint: WebhookEndpoint, now: datetime) -> list[str]:
    return [one.sealed.ciphertext for one in endpoint.secrets_at(now)]


def test_a_secret_that_was_revoked_does_not_sign_again_after_the_next_rotation() -> None:
    revoked = endpoint().rotated(sealed("second"), old_until=NOW)
    assert signing(revoked, NOW) == ["second"]
    rotated = revoked.rotated(sealed("third"), old_until=NOW + DAY)
    assert signing(rotated, NOW) == ["third", "second"]


def test_a_rotation_neither_prolongs_nor_cuts_short_the_time_of_older_secrets() -> None:
    once = endpoint().rotated(sealed("second"), old_until=NOW + DAY)
    for until in (NOW, NOW + 7 * DAY):
        twice = once.rotated(sealed("third"), old_until=until)
        assert ("first" in signing(twice, NOW + DAY / 2)) is True
        assert ("first" in signing(twice, NOW + DAY)) is False


def test_the_newest_secrets_are_kept() -> None:
    kept = endpoint()
    for number in range(2 * MAX_SECRETS):
        kept = kept.rotated(sealed(str(number)), old_until=NOW + DAY)
    assert signing(kept, NOW) == [str(number) for number in reversed(range(MAX_SECRETS, 2 * MAX_SECRETS))]


def test_what_is_sealed_for_webhooks_opens_for_those_of_its_caller_and_for_nothing_else() -> None:
    sealer = SecretSealer.ephemeral()
    for_webhooks = sealer.seal(SecretStr("whsec"), purpose=webhook_purpose("key:ann"))
    token = sealer.seal(SecretStr("apify_api_token"), purpose="key:ann")
    for secret, purpose in (
        (for_webhooks, "key:ann"),
        (for_webhooks, webhook_purpose("key:bob")),
        (token, webhook_purpose("key:ann")),
    ):
        with pytest.raises(SealError):
            sealer.open(secret, purpose=purpose)


def test_webhooks_that_an_earlier_version_sealed_open() -> None:
    ciphertext = "bTO0HAMApL2QmLGCxR8NbdVgLVmcr1w2CO1ESD0ErBnjmi+tP68yU//HLxHUYdkIQZCFRHk="
    sealer = SecretSealer({"test": bytes(range(32))})
    kept = SealedSecret(key_id="test", ciphertext=ciphertext)
    assert sealer.open(kept, purpose=webhook_purpose("key:ann")).get_secret_value() == "https://example.com/hooks"
