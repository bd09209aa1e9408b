"""The base class of every contract, and what most of them contain: the caller and its secrets.

Contracts are frozen and import no I/O library, so that workflow code can use them. A field that is added later has a
default: inputs recorded by an older version must stay readable.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of some content, in hexadecimal digits."""
JsonObject = dict[str, JsonValue]
"""A JSON object whose shape is not known here."""


class Contract(BaseModel):
    """Base of every model that crosses a process boundary: frozen, and ignores fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SealedSecret(Contract):
    """A secret as histories hold it: encrypted with AES-256-GCM under the key `key_id`, see `activities.secrets`."""

    key_id: str
    ciphertext: str = Field(description="Base64 of nonce and ciphertext.")


class CallPayment(Contract):
    """Payment for the platform's requests of one call, in place of an account."""

    protocol: str = Field(description="`skyfire` or `x402`: in which headers it goes.")
    secret: SealedSecret


class Caller(Contract):
    """Who calls a tool. `id` scopes everything that the caller can see; it is not a secret."""

    id: str
    reach: Literal["own", "account"] = Field(
        default="account",
        description="Which runs and storages of its Apify account it reaches: those of its own calls, or all.",
    )
    apify_token: SealedSecret | None = Field(
        default=None, description="The caller's own Apify token; without one, the operator's token pays."
    )
    payment: CallPayment | None = Field(
        default=None, description="Came with the call, pays for all its requests, and is spent with it."
    )

    @property
    def with_account(self) -> "Caller":
        """The same caller beyond the call: the account acts for it, no payment."""
        return self if self.payment is None else self.model_copy(update={"payment": None})
