"""The base of every contract, and what most of them contain: the caller and its secrets.

Contracts are frozen and free of I/O imports, so that workflow code may use them. A field added later gets a default:
inputs recorded by an older version must stay readable.
"""

from pydantic import BaseModel, ConfigDict, Field


class Contract(BaseModel):
    """Base of every model that crosses a boundary: frozen, and tolerant of fields a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SealedSecret(Contract):
    """A secret as it may stand in a history: AES-256-GCM under the key `key_id`, see `activities.secrets.sealer`."""

    key_id: str
    ciphertext: str = Field(description="Base64 of nonce and ciphertext.")


class Caller(Contract):
    """Who asks for a tool. `id` scopes everything the caller can see and is not a secret."""

    id: str
    apify_token: SealedSecret | None = Field(
        default=None, description="The caller's own Apify token; absent means the operator's token pays."
    )
