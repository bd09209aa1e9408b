"""Secrets of webhooks, and the headers of a signed request (the Standard Webhooks specification, symmetric keys)."""

import base64
import secrets
from collections.abc import Iterable
from datetime import datetime

from pydantic import SecretStr
from standardwebhooks import Webhook

from outlast.activities.webhooks.contracts import SECRET_PREFIX

_SECRET_BYTES = 32


def webhook_purpose(caller_id: str) -> str:
    """What addresses and secrets of a caller's webhooks are sealed for: they open as nothing else."""
    return f"webhook:{caller_id}"


def new_secret() -> SecretStr:
    """A new random secret."""
    return SecretStr(SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode())


def signed_headers(event_id: str, body: str, keys: Iterable[SecretStr], *, now: datetime) -> dict[str, str]:
    """The headers that prove who has sent `body`, when, and as which event; one signature for each of `keys`.

    `now` is UTC. A receiver refuses what is more than five minutes old, so each attempt is signed again.
    """
    signatures = [Webhook(key.get_secret_value()).sign(event_id, now, body) for key in keys]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
