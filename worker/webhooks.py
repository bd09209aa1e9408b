"""The activity that delivers events to webhooks, by the settings of the worker."""

from datetime import timedelta

from temporalio.client import Client

from outlast.activities.secrets.sealer import SecretSealer
from outlast.activities.web.address_rules import AddressRules
from outlast.activities.webhooks.activities import WebhookActivities
from outlast.activities.webhooks.posting import WebhookPoster
from outlast.activities.webhooks.subscriptions import Subscriptions
from outlast.worker.settings import WorkerSettings
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE


def webhook_activities(settings: WorkerSettings, client: Client, sealer: SecretSealer) -> WebhookActivities:
    """The activities, under the same rules on addresses as pages that are fetched for users."""
    rules = AddressRules(allow_private=settings.allow_private_addresses)
    return WebhookActivities(
        client,
        Subscriptions(client, task_queue=TOOLS_TASK_QUEUE),
        sealer,
        WebhookPoster(rules, timeout_seconds=settings.webhook_timeout_seconds),
        first_pause=timedelta(seconds=settings.webhook_first_pause_seconds),
        give_up=timedelta(hours=settings.webhook_retry_hours),
    )
