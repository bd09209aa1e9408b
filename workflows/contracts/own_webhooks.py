"""Contract of the webhooks that a call or a batch names itself, as a request has them. Histories hold them sealed."""

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, SecretStr

from outlast.activities.contracts import Contract, JsonObject
from outlast.activities.webhooks.contracts import SECRET_PREFIX, WebhookEventType

_MAX_ADDRESS_CHARS = 2_048
_LEAST_BYTES, _MOST_BYTES = 24, 64
"""Length of a secret by the Standard Webhooks specification."""


def _checked(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(SECRET_PREFIX) or not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a secret reads `{SECRET_PREFIX}` and the base64 of {_LEAST_BYTES} to {_MOST_BYTES} bytes")
    return secret


SigningSecret = Annotated[SecretStr, Field(max_length=120), AfterValidator(_checked)]
"""`whsec_` and base64."""
Address = Annotated[SecretStr, Field(min_length=1, max_length=_MAX_ADDRESS_CHARS)]
"""An http(s) address."""


class OwnWebhook(Contract):
    """An address that hears of one call, or of one batch."""

    url: Address = Field(description="Where events are posted: the address of a public web server.")
    secret: SigningSecret = Field(
        description="What signs them: `whsec_` and the base64 of 24 to 64 random bytes, as in Standard Webhooks."
    )
    events: tuple[WebhookEventType, ...] = Field(
        default=(), max_length=len(WebhookEventType), description="Which events; all that there are, without."
    )

    @property
    def in_the_clear(self) -> JsonObject:
        """All of it, for a keyed digest and nothing else."""
        events: list[JsonValue] = [one.value for one in self.events]
        return {"url": self.url.get_secret_value(), "secret": self.secret.get_secret_value(), "events": events}
