"""Headers that keep browsers from doing more with an answer than to show or hand on what it is."""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # No answer of the API is a page. Those that are set a policy of their own.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class SecurityHeaders:
    """ASGI middleware that adds them to every answer that does not set its own."""

    def __init__(self, app: ASGIApp, *, headers: Mapping[str, str]) -> None:
        """Add `headers` to the answers of `app`."""
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    found.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def security_headers(hsts_seconds: int) -> dict[str, str]:
    """The headers of a server; with `hsts_seconds` also that browsers use HTTPS only (RFC 6797)."""
    hsts = {"Strict-Transport-Security": f"max-age={hsts_seconds}"} if hsts_seconds else {}
    return {**SECURITY_HEADERS, **hsts}
