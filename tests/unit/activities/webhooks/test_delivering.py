"""One worker's part in delivering: what it posts at once, signs with, and says when it fails."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from pydantic import SecretStr
from standardwebhooks import Webhook, WebhookVerificationError
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.secrets import SecretSealer
from outlast.activities.web.address_rules import AddressRules
from outlast.activities.webhooks.activities import WebhookActivities
from outlast.activities.webhooks.contracts import (
    Delivered,
    DeliveryInput,
    WebhookEndpoint,
    WebhookEvent,
    WebhookEventType,
    WebhookListener,
    WebhookSecret,
)
from outlast.activities.webhooks.posting import WebhookPoster, new_secret, webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from tests.support.eventually import eventually
from tests.support.http.webhooks import receiving_webhooks

SEALER = SecretSealer.ephemeral()
NOW = datetime.now(UTC)


def order(url: str, *secrets: WebhookSecret, number: int = 1, caller: str = "key:ann") -> DeliveryInput:
    sealed = SEALER.seal(SecretStr(url), purpose=webhook_purpose("key:ann"))
    kind = WebhookEventType.TASK_COMPLETED
    endpoint = WebhookEndpoint(url=sealed, secrets=secrets or (secret(new_secret()),))
    listener = WebhookListener(id="own-1", events=(kind,), endpoint=endpoint)
    event = WebhookEvent(id=f"evt_{number}", type=kind, timestamp=NOW, data={"task_id": "t"})
    return DeliveryInput(caller_id=caller, listener=listener, event=event)


def secret(value: SecretStr, until: datetime | None = None) -> WebhookSecret:
    return WebhookSecret(sealed=SEALER.seal(value, purpose=webhook_purpose("key:ann")), until=until)


@pytest.fixture
async def webhooks() -> AsyncIterator[WebhookActivities]:
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=60) as poster:
        yield _activities(poster)


def _activities(poster: WebhookPoster) -> WebhookActivities:
    nothing = cast("Client", None)  # an order with an endpoint of its own asks Temporal for nothing
    subscriptions, queues = Subscriptions(nothing, task_queue="none"), WebhookQueues(nothing, task_queue="none")
    day = timedelta(days=1)
    return WebhookActivities(nothing, subscriptions, queues, SEALER, poster, first_pause=day, give_up=day)


async def deliver(webhooks: WebhookActivities, wanted: DeliveryInput) -> Delivered:
    return await ActivityEnvironment().run(webhooks.deliver_webhook, wanted)


async def test_a_receiver_that_hangs_keeps_few_connections_of_a_caller(webhooks: WebhookActivities) -> None:
    with receiving_webhooks() as receiver:
        receiver.otherwise = -1
        waiting = [asyncio.create_task(deliver(webhooks, order(receiver.url, number=one))) for one in range(40)]
        await eventually(lambda: len(receiver.received) >= 20)
        assert len(receiver.received) == 20, "further events of the caller wait for their turn"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_secrets_sign_for_as_long_as_they_are_good(webhooks: WebhookActivities) -> None:
    new, old, older = (new_secret() for _ in range(3))
    secrets = (secret(new), secret(old, NOW + timedelta(hours=1)), secret(older, NOW - timedelta(seconds=1)))
    with receiving_webhooks() as receiver:
        assert (await deliver(webhooks, order(receiver.url, *secrets))).outcome == "delivered"
    request = receiver.received[0]
    for good in (new, old):
        assert Webhook(good.get_secret_value()).verify(request.raw, request.headers)["type"] == "task.completed"
    with pytest.raises(WebhookVerificationError):
        Webhook(older.get_secret_value()).verify(request.raw, request.headers)


async def test_what_another_caller_has_sealed_does_not_open(webhooks: WebhookActivities) -> None:
    with receiving_webhooks() as receiver:
        with pytest.raises(ApplicationError, match="encrypted for another caller"):
            await deliver(webhooks, order(receiver.url, caller="key:bob"))
        assert receiver.received == []


async def test_a_failure_names_no_address(webhooks: WebhookActivities) -> None:
    with receiving_webhooks() as receiver:
        receiver.otherwise = 500
        with pytest.raises(ApplicationError) as failed:
            await deliver(webhooks, order(receiver.url))
    assert failed.value.message == "It answered 500."
    assert "theSecretOfTheWebhook" not in repr(failed.value.__dict__)


async def test_an_attempt_that_fails_in_an_unexpected_way_is_one_that_failed_and_names_no_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=60) as poster:
        with receiving_webhooks() as receiver:
            monkeypatch.setattr(poster, "post", _broken)
            with pytest.raises(ApplicationError) as failed:
                await deliver(_activities(poster), order(receiver.url))
    assert failed.value.message == "The attempt failed (LookupError)."
    assert "LookupError" in caplog.text
    assert "theSecretOfTheWebhook" not in caplog.text.replace('raise LookupError("theSecretOfTheWebhook")', "")


async def _broken(*_: object) -> None:
    raise LookupError("theSecretOfTheWebhook")
