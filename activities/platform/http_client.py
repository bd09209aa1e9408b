"""apify-client's transport, with what Outlast adds to its requests, and with valid text in its responses. Only
`ApifyPlatform` imports this, for its first client: it loads apify-client (`activities/apify.py`).
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

import impit
from apify_client.http_clients import HttpClientAsync, ImpitHttpClientAsync

from outlast.activities.platform.platform_fence import PlatformFence
from outlast.activities.platform.request_marks import OPERATION_MARKER, PAYMENT_HEADER, current_mark
from outlast.activities.platform.valid_responses import with_valid_text
from outlast.activities.spans import answered_with, platform_request

_SHORT_TIMEOUT = timedelta(seconds=5)
_MEDIUM_TIMEOUT = timedelta(seconds=30)
_LONG_TIMEOUT = timedelta(seconds=360)
"""apify-client's own defaults, which it keeps in a private module: they bound what a longer `request_timeout` does."""


def connection_pool() -> impit.AsyncClient:
    """Return a pool of connections that clients of any number of tokens share. It keeps no cookies."""
    return impit.AsyncClient(follow_redirects=True)


class MarkingHttpClient(ImpitHttpClientAsync):
    """apify-client's transport, which adds the marks and the payment of `marked_as` to each request."""

    fence: PlatformFence | None = None
    """The fence that keeps the caller to its own runs and storages; None where it reaches all of the account."""
    payment_headers: Mapping[str, str] = MappingProxyType({})
    """The payment for each request, where no account pays."""

    def __init__(self, pool: impit.AsyncClient, *, token: str | None, request_timeout: timedelta) -> None:
        # Not the initializer of ImpitHttpClientAsync: that one makes a TLS configuration and a pool per client.
        HttpClientAsync.__init__(
            self,
            token=token,
            max_retries=0,
            timeout_short=min(_SHORT_TIMEOUT, request_timeout),
            timeout_medium=min(_MEDIUM_TIMEOUT, request_timeout),
            timeout_long=min(_LONG_TIMEOUT, 6 * request_timeout),
            timeout_max=timedelta(seconds=600),
            user_agent_suffix="Outlast",
        )
        self._impit_async_client = pool

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
        headers = {**headers, **self.payment_headers}
        mark = current_mark()
        if mark is not None:
            marks = f"{OPERATION_MARKER}{mark.operation_id}; {mark.owner}"
            headers = {**headers, "User-Agent": f"{headers['User-Agent']}; {marks}"}
            if mark.payment is not None:
                headers[PAYMENT_HEADER] = mark.payment.get_secret_value()

        async def look(address: str) -> impit.Response:
            return await self._send("GET", address, headers=headers, content=None, timeout=timeout, stream=False)

        refused = None if self.fence is None else await self.fence.answer(method, url, look)
        if refused is not None:
            return refused
        response = await self._send(method, url, headers=headers, content=content, timeout=timeout, stream=stream)
        if self.fence is not None:
            self.fence.started(method, url, response)
        return response

    async def _send(self, method: str, url: str, *, stream: bool, **fields: Any) -> impit.Response:
        with platform_request(method, url) as span:
            response = await super().send_request(method=method, url=url, stream=stream, **fields)
            answered_with(span, response.status_code)
            # apify-client takes every `HttpResponse`, and its own method names only one kind of it.
            return cast(impit.Response, with_valid_text(response, stream=stream))
