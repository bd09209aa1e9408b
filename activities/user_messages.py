"""The activity that delivers a message or a reaction to the operator's webhook, in the format of Slack's webhooks. The
webhook's URL is a secret, since everybody who has it can post. It stays in this process: no error, log or metric
contains it, and the messages of failures never come from the HTTP library.
"""

from datetime import timedelta
from typing import Literal
from urllib.parse import quote

import httpx2
from pydantic import Field, SecretStr
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract, ErrorCategory
from outlast.activities.failures.classify import ToolFailure, category_of_status
from outlast.activities.heartbeat import activity_scope
from outlast.activities.web.network import outbound_client

WEBHOOK_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30), maximum_attempts=5
)
_TIMEOUT_SECONDS = 10.0
_OK = range(200, 300)
_PASSING = frozenset({ErrorCategory.PLATFORM, ErrorCategory.RATE_LIMIT, ErrorCategory.TIMEOUT})


class Delivery(Contract):
    """The input: a message as plain text, or a reaction with the name of its emoji as `text`."""

    kind: Literal["update", "reaction"]
    text: str
    task_id: str
    session_id: str | None = None
    message_id: str | None = Field(default=None, description="The message that this one answers.")


class Delivered(Contract):
    """The result: False if no webhook is configured. A failed delivery is an error instead."""

    delivered: bool


class ResponderActivities:
    """Posts to the webhook that the operator has configured."""

    def __init__(self, webhook: SecretStr | None) -> None:
        """`webhook` is None when none is configured. Raises `ValueError`, without the URL, if it is not http(s)."""
        if webhook is not None and not _is_web_address(webhook):
            raise ValueError("OUTLAST_RESPONDER_WEBHOOK_URL is not an http:// or https:// address")
        self._webhook = webhook

    @activity.defn
    async def deliver_to_webhook(self, delivery: Delivery) -> Delivered:
        """Post once. Every attempt has the same `Idempotency-Key`, so that a receiver can recognise a retry."""
        if self._webhook is None:
            return Delivered(delivered=False)
        async with activity_scope():
            status = await _post(self._webhook, delivery)
            if status not in _OK:
                raise _rejected(status)
            return Delivered(delivered=True)


def webhook_body(delivery: Delivery) -> dict[str, str]:
    """The body for Slack's incoming webhooks. They have no reactions: a reaction is a message with its emoji. A model's
    text sends no notifications: `<!channel>` and similar mentions are shown as text (Slack, "Formatting text for app
    surfaces": escaping `&`, `<` and `>`).
    """
    text = delivery.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text if delivery.kind == "update" else emoji_markup(text)}


def emoji_markup(emoji: str) -> str:
    """`:name:` for a name; an emoji character unchanged."""
    return f":{emoji}:" if emoji.isascii() else emoji


def _headers(delivery: Delivery) -> dict[str, str]:
    """Headers for other receivers than Slack: the kind, the task and conversation, and a key to recognise retries."""
    info = activity.info()
    headers = {
        "Idempotency-Key": f"{delivery.task_id}.{info.activity_id}",
        "Outlast-Kind": delivery.kind,
        "Outlast-Task": delivery.task_id,
        "Outlast-Session": delivery.session_id,
        "Outlast-Message": delivery.message_id,
    }
    return {name: quote(value, safe=":.@-_") for name, value in headers.items() if value is not None}


async def _post(webhook: SecretStr, delivery: Delivery) -> int:
    try:
        async with outbound_client(timeout=_TIMEOUT_SECONDS) as client:
            url, body, headers = webhook.get_secret_value(), webhook_body(delivery), _headers(delivery)
            # The body of the response is not read: only the status counts, and the body may have any size.
            async with client.stream("POST", url, json=body, headers=headers) as answer:
                return answer.status_code
    except httpx2.TimeoutException:
        raise _failed("The webhook did not answer in time.", ErrorCategory.TIMEOUT, retryable=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        message = f"The webhook cannot be reached ({type(error).__name__})."
        raise _failed(message, ErrorCategory.NETWORK, retryable=True) from None


def _rejected(status: int) -> ToolFailure:
    category = category_of_status(status)
    return _failed(f"The webhook answered {status}.", category, retryable=category in _PASSING)


def _failed(message: str, category: ErrorCategory, *, retryable: bool) -> ToolFailure:
    hint = "The operator should check OUTLAST_RESPONDER_WEBHOOK_URL and its receiver."
    return ToolFailure.of(category, message, hint, retryable=retryable)


def _is_web_address(webhook: SecretStr) -> bool:
    try:
        url = httpx2.URL(webhook.get_secret_value())
    except httpx2.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)
