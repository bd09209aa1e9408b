"""Access to the Apify platform on behalf of a caller: `apify-client` with its own retries turned off. Temporal retries.
A client that retries a start by itself can pay for two runs, as both official clients do.
"""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from cachetools import LRUCache
from pydantic import JsonValue, SecretStr
from pydantic_core import from_json, to_json

from outlast.activities import apify
from outlast.activities.contracts import Caller, CallPayment, ErrorCategory, SealedSecret
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.object_store import KeptParts
from outlast.activities.platform.platform_fence import PlatformFence
from outlast.activities.platform.request_marks import PROTOCOL_HEADER, SIGNATURE_HEADERS, RunOwners
from outlast.activities.secrets import SecretSealer, is_mark, is_sealed, open_values

if TYPE_CHECKING:
    import impit

DEFAULT_REQUEST_TIMEOUT = timedelta(seconds=60)
"""The time limit of one response of the platform."""

_MAX_CLIENTS = 256
_MAX_PAID_CLIENTS = 32
"""Each payment is for one call: clients of payments must not push those of accounts out."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_MAX_ID_CHARS = 1_000


class ApifyPlatform:
    """Clients of the platform, one per token. The only place that opens encrypted secrets."""

    def __init__(
        self,
        *,
        api_base_url: str,
        operator_token: SecretStr | None,
        sealer: SecretSealer,
        request_timeout: timedelta = DEFAULT_REQUEST_TIMEOUT,
        kept: KeptParts | None = None,
    ) -> None:
        """`api_base_url` is the platform's root, without `/v2`; `operator_token` pays for callers without a token.
        `kept` has the large parts of inputs; without it, inputs with large parts cannot be opened.
        """
        self._kept = kept
        self.api_base_url = api_base_url.rstrip("/")
        self._operator_token = operator_token
        self._sealer = sealer
        self._request_timeout = request_timeout
        self._clients: LRUCache[tuple[str, str | None], apify.ApifyClientAsync] = LRUCache(_MAX_CLIENTS)
        self._paid_clients: LRUCache[tuple[str, str], apify.ApifyClientAsync] = LRUCache(_MAX_PAID_CLIENTS)
        self._owners = RunOwners(sealer)
        self._pool: impit.AsyncClient | None = None

    def client(self, caller: Caller) -> "apify.ApifyClientAsync":
        """The client that acts for `caller` and reaches what it may. Raises `ToolFailure` when there is no token."""
        if caller.payment is not None or caller.reach == "account":
            return self.account_client(caller)
        return self._client(self.token(caller), fenced_for=caller.id)

    def account_client(self, caller: Caller) -> "apify.ApifyClientAsync":
        """The client that reaches all of the account: to start runs, and to find those of an operation by its marker.
        Nothing that a caller names may be looked up with it, unless its payment came with the call: then the account is
        that of the payer. Raises `ToolFailure` when there is no token.
        """
        if caller.payment is not None:
            return self._paid_client(caller, caller.payment)
        return self.client_for_token(self.token(caller))

    def owner_mark(self, caller: Caller) -> str:
        """Return the mark that names `caller` as the owner of the runs that are started for it, see `marked_as`."""
        return self._owners.mark(caller.id)

    def token(self, caller: Caller) -> SecretStr:
        """Return the token that acts for `caller`, in the clear. Raises `ToolFailure` when there is none."""
        if caller.apify_token is not None:
            return self._sealer.open(caller.apify_token, purpose=caller.id)
        if self._operator_token is not None:
            return self._operator_token
        raise ToolFailure.of(
            ErrorCategory.AUTHENTICATION,
            "No Apify token: neither the caller nor the server has one.",
            "Send your Apify token as the bearer token, or start the server with APIFY_TOKEN set.",
        )

    def open_payment(self, payment: SealedSecret | None, caller: Caller) -> SecretStr | None:
        """Return the payment token for a run of `caller`, in the clear; None when the account pays."""
        return self._sealer.open(payment, purpose=caller.id) if payment else None

    def open_input(self, run_input: JsonValue, caller: Caller) -> JsonValue:
        """`run_input` with the values that the API encrypted for `caller` in the clear. Raises `SealError`."""
        return open_values(run_input, self._sealer, purpose=caller.id)

    async def input_text(self, run_input: JsonValue, caller: Caller, *, task_id: str, attempt: int) -> bytes:
        """`run_input` as JSON, with encrypted values in the clear and kept parts in their places. The parts are not
        decoded: they may be millions of values. Marks count at the top and as fields of the input, where the API puts
        them. Raises `SealError`, and what `KeptParts.text_of` raises.
        """

        async def text_of(value: JsonValue) -> bytes:
            if self._kept is None or not is_mark(value):
                return to_json(self.open_input(value, caller))
            text = await self._kept.text_of(value, task_id=task_id, attempt=attempt)
            return to_json(self.open_input(from_json(text), caller)) if text.startswith(b'{"$sealed":') else text

        if not isinstance(run_input, dict) or is_mark(run_input) or is_sealed(run_input):
            return await text_of(run_input if run_input is not None else {})
        members = [to_json(name) + b":" + await text_of(value) for name, value in run_input.items()]
        return b"{" + b",".join(members) + b"}"

    def url_of(self, collection: str, resource_id: str) -> str:
        """The URL of one resource. The id is escaped, so that it stays one segment of the path. Raises `ToolFailure`
        for an id that no server takes in an address.
        """
        if len(resource_id) > _MAX_ID_CHARS:
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"Invalid id of {len(resource_id)} characters: {resource_id[:40]!r}… The limit is {_MAX_ID_CHARS}.",
                "Use the id as it was returned to you.",
            )
        return f"{self.api_base_url}/v2/{collection}/{quote(resource_id, safe='')}"

    def client_for_token(self, token: SecretStr) -> "apify.ApifyClientAsync":
        """Return the client of one token that is known to be good. Clients are kept."""
        return self._client(token)

    def client_for_unknown_token(self, token: SecretStr) -> "apify.ApifyClientAsync":
        """Return a client that is not cached, to check whether the token is valid."""
        return self._build_client(token, None)

    def _paid_client(self, caller: Caller, payment: CallPayment) -> "apify.ApifyClientAsync":
        """Return the client of one payment, which names no account."""
        secret = self._sealer.open(payment.secret, purpose=caller.id)
        key = (_digest(secret), payment.protocol)
        client = self._paid_clients.get(key)
        if client is None:
            headers = {
                SIGNATURE_HEADERS[payment.protocol]: secret.get_secret_value(),
                PROTOCOL_HEADER: payment.protocol,
            }
            client = self._paid_clients[key] = self._build_client(None, None, MappingProxyType(headers))
        return client

    def _client(self, token: SecretStr, *, fenced_for: str | None = None) -> "apify.ApifyClientAsync":
        key = (_digest(token), fenced_for)
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._build_client(token, fenced_for)
        return client

    def _build_client(
        self, token: SecretStr | None, fenced_for: str | None, payment_headers: Mapping[str, str] = _NO_HEADERS
    ) -> "apify.ApifyClientAsync":
        apify.load()
        # A part of apify-client.
        from outlast.activities.platform.http_client import MarkingHttpClient, connection_pool  # noqa: PLC0415

        # A pool has a TLS configuration and takes megabytes, so clients share one: a token costs next to nothing.
        self._pool = self._pool or connection_pool()
        clear = token.get_secret_value() if token is not None else None
        http_client = MarkingHttpClient(self._pool, token=clear, request_timeout=self._request_timeout)
        http_client.payment_headers = payment_headers
        if fenced_for is not None:
            http_client.fence = PlatformFence(self._owners, fenced_for, api_base_url=self.api_base_url)
        return apify.ApifyClientAsync.with_custom_http_client(
            token=clear, api_url=self.api_base_url, http_client=http_client
        )


def _digest(secret: SecretStr) -> str:
    return hashlib.sha256(secret.get_secret_value().encode()).hexdigest()
