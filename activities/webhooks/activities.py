"""Activity that delivers a message or a reaction to the operator's webhook (Slack's incoming webhooks, and their like).

The address is a secret: whoever has it can post. It stays in this process and is in no error, log or metric; what a
failure says is made here and never taken from the HTTP library.
"""

from datetime import timedelta
from typing import Literal
from urllib.parse import quote

import httpx
from pydantic import Field, SecretStr
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract
from outlast.activities.failures.classify import ToolFailure, category_of_status
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.heartbeat import activity_scope

WEBHOOK_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30), maximum_attempts=5
)
_TIMEOUT_SECONDS = 10.0
_OK = range(200, 300)
_PASSING = frozenset({ErrorCategory.PLATFORM, ErrorCategory.RATE_LIMIT, ErrorCategory.TIMEOUT})


class Delivery(Contract):
    """What is to be delivered. `text` is plain text; a reaction's is the name of its emoji."""

    kind: Literal["update", "reaction"]
    text: str
    task_id: str
    session_id: str | None = None
    message_id: str | None = Field(default=None, description="The message that is answered.")


class Delivered(Contract):
    """Whether there is a webhook at all; a failed delivery is an error instead."""

    delivered: bool


class WebhookActivities:
    """Posts to the webhook that the operator has configured."""

    def __init__(self, webhook: SecretStr | None) -> None:
        """Post to `webhook`, or to nowhere. Raises `ValueError`, without the address, for one that is not http(s)."""
        if webhook is not None and not _is_web_address(webhook):
            raise ValueError("OUTLAST_RESPONDER_WEBHOOK_URL is no http:// or https:// address")
        self._webhook = webhook

    @activity.defn
    async def deliver_to_webhook(self, delivery: Delivery) -> Delivered:
        """Post once. A repeated attempt carries the same `Idempotency-Key`, by which a receiver knows it."""
        if self._webhook is None:
            return Delivered(delivered=False)
        async with activity_scope():
            status = await _post(self._webhook, delivery)
            if status not in _OK:
                raise _refused(status)
            return Delivered(delivered=True)


def webhook_body(delivery: Delivery) -> dict[str, str]:
    """What Slack's incoming webhooks take. They know no reactions: one is a message of its emoji.

    A model's text notifies nobody: `<!channel>` and its like are shown as they are written (Slack, "Formatting text for
    app surfaces": escaping `&`, `<` and `>`).
    """
    text = delivery.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text if delivery.kind == "update" else emoji_markup(text)}


def emoji_markup(emoji: str) -> str:
    """A name as `:name:`; an emoji character as it is."""
    return f":{emoji}:" if emoji.isascii() else emoji


def _headers(delivery: Delivery) -> dict[str, str]:
    """For receivers that know more than Slack does: what it is, where it belongs, and that it is the same again."""
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
        async with httpx.AsyncClient(follow_redirects=False, timeout=_TIMEOUT_SECONDS) as client:
            url, body, headers = webhook.get_secret_value(), webhook_body(delivery), _headers(delivery)
            # The answer is not read: only its status counts, and it may be of any size.
            async with client.stream("POST", url, json=body, headers=headers) as answer:
                return answer.status_code
    except httpx.TimeoutException:
        raise _failed("The webhook did not answer in time.", ErrorCategory.TIMEOUT, retryable=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"The webhook cannot be reached ({type(error).__name__})."
        raise _failed(message, ErrorCategory.NETWORK, retryable=True) from None


def _refused(status: int) -> ToolFailure:
    category = category_of_status(status)
    return _failed(f"The webhook answered {status}.", category, retryable=category in _PASSING)


def _failed(message: str, category: ErrorCategory, *, retryable: bool) -> ToolFailure:
    hint = "The operator checks OUTLAST_RESPONDER_WEBHOOK_URL and its receiver."
    return ToolFailure(ErrorEnvelope(tool="", message=message, category=category, retryable=retryable, hint=hint))


def _is_web_address(webhook: SecretStr) -> bool:
    try:
        url = httpx.URL(webhook.get_secret_value())
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)
