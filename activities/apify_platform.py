"""The Apify platform as seen by one caller: real `apify-client`s whose own retries are off.

Retries belong to Temporal: a client that repeats a start by itself can pay twice (both official clients do).
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

import impit
from apify_client import ApifyClientAsync
from apify_client._consts import DEFAULT_TIMEOUT_LONG, DEFAULT_TIMEOUT_MEDIUM, DEFAULT_TIMEOUT_SHORT
from apify_client.http_clients import ImpitHttpClientAsync
from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import Caller, SealedSecret
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.secrets.sealed_json import open_values
from outlast.activities.secrets.sealer import SecretSealer

OPERATION_MARKER = "outlast-op/"
"""Prefix of the User-Agent part that names the operation a run was started for."""

DEFAULT_REQUEST_TIMEOUT = timedelta(seconds=60)
"""How long one answer of the platform is waited for."""

_MAX_CLIENTS = 256
PAYMENT_HEADER = "skyfire-pay-id"


@dataclass(frozen=True)
class _Mark:
    operation_id: str
    payment: SecretStr | None


_mark: ContextVar[_Mark | None] = ContextVar("outlast_operation", default=None)


@contextmanager
def marked_as(operation_id: str, *, payment: SecretStr | None = None) -> Generator[None]:
    """Requests made inside the block carry the operation in their User-Agent, which the platform keeps with a run.

    They also carry `payment`, the id of a Skyfire token that pays instead of the account.
    """
    token = _mark.set(_Mark(operation_id, payment))
    try:
        yield
    finally:
        _mark.reset(token)


class MarkingHttpClient(ImpitHttpClientAsync):
    """apify-client's own transport, which adds the operation marker of `marked_as` to the User-Agent."""

    async def send_request(
        self,
        *,
        method: str,
        url: str,
        headers: dict[str, str],
        content: bytes | AsyncIterator[bytes] | None,
        timeout: float | None,
        stream: bool,
    ) -> impit.Response:
        """Send one request (`HttpClientAsync.send_request`)."""
        mark = _mark.get()
        if mark is not None:
            headers = {**headers, "User-Agent": f"{headers['User-Agent']}; {OPERATION_MARKER}{mark.operation_id}"}
            if mark.payment is not None:
                headers[PAYMENT_HEADER] = mark.payment.get_secret_value()
        return await super().send_request(
            method=method, url=url, headers=headers, content=content, timeout=timeout, stream=stream
        )


class ApifyPlatform:
    """Hands out a client per caller. The only place where what was sealed is opened."""

    def __init__(
        self,
        *,
        api_base_url: str,
        operator_token: SecretStr | None,
        sealer: SecretSealer,
        request_timeout: timedelta = DEFAULT_REQUEST_TIMEOUT,
    ) -> None:
        """`api_base_url` is the platform's root, without `/v2`; `operator_token` pays for callers without their own."""
        self.api_base_url = api_base_url.rstrip("/")
        self._operator_token = operator_token
        self._sealer = sealer
        self._request_timeout = request_timeout
        self._clients: OrderedDict[str, ApifyClientAsync] = OrderedDict()

    def client(self, caller: Caller) -> ApifyClientAsync:
        """The client that acts for `caller`. Raises `ToolFailure` when there is no token to act with."""
        return self.client_for_token(self.token(caller))

    def token(self, caller: Caller) -> SecretStr:
        """The token that acts for `caller`, in the clear. Raises `ToolFailure` when there is none."""
        if caller.apify_token is not None:
            return self._sealer.open(caller.apify_token, purpose=caller.id)
        if self._operator_token is not None:
            return self._operator_token
        raise ToolFailure(
            ErrorEnvelope(
                tool="",
                message="No Apify token: neither the caller nor the server has one.",
                category=ErrorCategory.AUTHENTICATION,
                retryable=False,
                hint="Send your Apify token as the bearer token, or start the server with APIFY_TOKEN set.",
            )
        )

    def open_payment(self, payment: SealedSecret | None, caller: Caller) -> SecretStr | None:
        """What pays for a run of `caller`, in the clear."""
        return self._sealer.open(payment, purpose=caller.id) if payment else None

    def open_input(self, run_input: JsonValue, caller: Caller) -> JsonValue:
        """`run_input` with the secret values that the front door sealed for `caller` in the clear."""
        return open_values(run_input, self._sealer, purpose=caller.id)

    def url_of(self, collection: str, resource_id: str) -> str:
        """Address of one resource; an id is never more than one segment of the path."""
        return f"{self.api_base_url}/v2/{collection}/{quote(resource_id, safe='')}"

    def client_for_token(self, token: SecretStr) -> ApifyClientAsync:
        """The client of one token; kept for reuse, since each holds a connection pool."""
        key = hashlib.sha256(token.get_secret_value().encode()).hexdigest()
        client = self._clients.pop(key, None) or self._build(token)
        self._clients[key] = client
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
        return client

    def _build(self, token: SecretStr) -> ApifyClientAsync:
        http_client = MarkingHttpClient(
            token=token.get_secret_value(),
            max_retries=0,
            timeout_short=min(DEFAULT_TIMEOUT_SHORT, self._request_timeout),
            timeout_medium=min(DEFAULT_TIMEOUT_MEDIUM, self._request_timeout),
            timeout_long=min(DEFAULT_TIMEOUT_LONG, 6 * self._request_timeout),
            timeout_max=timedelta(seconds=600),
            user_agent_suffix="Outlast",
        )
        return ApifyClientAsync.with_custom_http_client(
            token=token.get_secret_value(), api_url=self.api_base_url, http_client=http_client
        )
