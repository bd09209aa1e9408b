"""Posts go where the rules on fetched addresses allow it, by the address that was judged."""

import pytest

from outlast.activities.web.address_rules import AddressRules
from outlast.activities.webhooks.posting import PostOutcome, WebhookPoster
from tests.support.http.webhooks import receiving_webhooks

CLOUD = "http://169.254.169.254/latest/meta-data"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/secret-path",
        "http://localhost:8080/secret-path",
        "http://10.0.0.1/secret-path",
        "http://[::1]/secret-path",
        "http://[::ffff:127.0.0.1]/secret-path",
        "http://2130706433/secret-path",
        CLOUD,
        "file:///secret-path",
        "http://user:password@example.com/secret-path",
        "http://example.com:22/secret-path",
    ],
)
async def test_addresses_that_are_not_public_are_not_posted_to_nor_named(url: str) -> None:
    async with WebhookPoster(AddressRules(), timeout_seconds=2) as poster:
        posted = await poster.post(url, b"{}", {})
    assert posted.outcome is PostOutcome.FORBIDDEN
    assert "secret-path" not in posted.message
    assert "password" not in posted.message


async def test_private_addresses_are_posted_to_where_the_operator_allows_it_and_those_of_clouds_never() -> None:
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=2) as poster:
        with receiving_webhooks() as receiver:
            assert (await poster.post(receiver.url, b'{"a":1}', {"webhook-id": "evt_1"})).status == 200
            assert receiver.received[0].raw == b'{"a":1}'
            assert receiver.received[0].headers["webhook-id"] == "evt_1"
        assert (await poster.post(CLOUD, b"{}", {})).outcome is PostOutcome.FORBIDDEN


async def test_a_redirect_is_not_followed() -> None:
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=2) as poster:
        with receiving_webhooks() as receiver:
            receiver.answers += [307]
            posted = await poster.post(receiver.url, b"{}", {})
    assert (posted.outcome, posted.status) == (PostOutcome.REFUSED, 307)
    assert len(receiver.received) == 1


async def test_a_receiver_that_hangs_or_breaks_off_is_left_in_time() -> None:
    with receiving_webhooks() as receiver:
        async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=0.3) as poster:
            receiver.answers += [-1]
            assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.TIMEOUT
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=30) as poster:
        with receiving_webhooks() as receiver:
            receiver.answers += [0]
            assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE
