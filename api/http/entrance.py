"""The entrance of the API: what every request passes before a route, a stream or the MCP server sees it.

In this order: is it for this server (`Host`), has it at most one `Authorization` header, does it come from a page that
may send it (`Origin`, `Sec-Fetch-Site`), whose is its credential, and if nobody's: has its address sent too many.
"""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.rate_limits import AnonymousRequests, address_of
from outlast.api.access.web_origins import ServerNames, WebOrigins, is_origin_of
from outlast.api.errors import ApiError, BadRequest, CrossSiteRequest, TooManyRequests, Unauthenticated, UnknownHost
from outlast.api.http.credentials_first import PRINCIPAL_STATE, bearer_token, resolved_principal
from outlast.api.http.problems import error_response
from outlast.api.http.server_card import CARD_PATH
from outlast.api.metrics import LIMITED
from outlast.api.settings import ApiSettings

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MCP = "/mcp"
_CODEC = "/codec/"
_FOR_CALLERS = ("/v1/", _MCP, _CODEC)
"""Below these paths everything belongs to some caller. Elsewhere are probes, metrics and the documentation."""
_FOR_EVERYBODY = frozenset({CARD_PATH})
"""But not this: it says how to become one."""
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""An orchestrator that is refused here would kill the process."""
_PROBE_SECONDS = 0.5
"""Longest that a probe is held back. Kubernetes gives up after a second."""
_OWN_SITE = frozenset({"same-origin", "none"})
"""`none` is the user's own doing: an address typed, a bookmark."""
_READABLE = (
    "Mcp-Session-Id",
    "WWW-Authenticate",
    "Retry-After",
    "X-Request-Id",
    "ETag",
    "RateLimit",
    "RateLimit-Policy",
)
"""Headers of answers that pages of other origins may read."""


class Entrance:
    """ASGI middleware; responds 400, 401, 403, 429 or 503 to what does not pass."""

    def __init__(self, app: ASGIApp, *, settings: ApiSettings, callers: CallerResolver) -> None:
        """Let requests through to `app`, those of callers with their principal in the scope."""
        self._app = app
        self._callers = callers
        self._names = ServerNames(LOOPBACK_NAMES if settings.is_loopback else settings.hosts)
        self._named_paths = ("",) if settings.is_loopback else (_MCP,) if settings.hosts else ()
        self._pages = WebOrigins(settings.origins)
        self._codec_pages = WebOrigins(_origin_of(settings.temporal_ui_url))
        self._anonymous = AnonymousRequests(settings.anonymous_requests_per_second)
        self._with_cors = _ForPages(self._admit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            is_shared = self._checked(scope)
        except ApiError as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": error.title})
                return
            await self._answer_stranger(error_response(scope["path"], error), scope, receive, send, is_replaced=False)
            return
        if is_shared and scope.get("method") == "OPTIONS":
            await self._answer_stranger(self._with_cors, scope, receive, send)
        else:
            await (self._with_cors if is_shared else self._admit)(scope, receive, send)

    def _checked(self, scope: Scope) -> bool:
        """Whether the request comes from a page of another origin that may send it and read the answer.

        Raises `UnknownHost`, `CrossSiteRequest` and `BadRequest`.
        """
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["path"].startswith(self._named_paths) and host not in self._names:
            raise UnknownHost(f"The Host header names none of: {self._names}. Use one of them in the URL.")
        if len(headers.getlist("authorization")) > 1:
            raise BadRequest("The request has several Authorization headers, so that none counts. Send one.")
        sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
        if sites and _OWN_SITE.issuperset(sites):
            return False
        if len(origins) == 1 and self._is_allowed(origins[0], scope["path"]):
            return True
        is_program = not sites and not origins
        is_own = not sites and len(origins) == 1 and is_origin_of(origins[0], host, scheme=scope["scheme"])
        if is_program or is_own or _is_harmless(scope, headers):
            return False
        raise CrossSiteRequest(
            "A web page of another site sent this request, and nothing was done. If its pages may use this server, "
            "name their origin in OUTLAST_ALLOWED_ORIGINS."
        )

    def _is_allowed(self, origin: str, path: str) -> bool:
        return origin in self._pages or (path.startswith(_CODEC) and origin in self._codec_pages)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a caller in, and strangers to what is for everybody."""
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        if not _needs_caller(scope):
            await self._answer_stranger(self._app, scope, receive, send)
            return
        has_bearer = bearer_token(Headers(scope=scope)) is not None
        if self._callers.needs_credential and not has_bearer:
            await self._answer_stranger(self._identified, scope, receive, send)
            return
        error = await self._refusal(scope)
        if error is None:
            await self._app(scope, receive, send)
        elif has_bearer and isinstance(error, Unauthenticated) and not error.is_repeated:
            # A guess: these have a limit of their own.
            await error_response(scope["path"], error)(scope, receive, send)
        else:
            await self._answer_stranger(error_response(scope["path"], error), scope, receive, send)

    async def _identified(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = await self._refusal(scope)
        await (self._app if error is None else error_response(scope["path"], error))(scope, receive, send)

    async def _refusal(self, scope: Scope) -> ApiError | None:
        """Why the credential of a request is not good; None when it is, and the scope has the principal."""
        try:
            scope[PRINCIPAL_STATE] = await resolved_principal(scope, self._callers)
        except ApiError as error:
            return error
        return None

    async def _answer_stranger(
        self, answer: ASGIApp, scope: Scope, receive: Receive, send: Send, *, is_replaced: bool = True
    ) -> None:
        """Give `answer`; to a stranger whose address has sent too many, late and as the last one of its connection.

        Otherwise requests that were sent without waiting for answers would take all the time there is. The late answer
        is a refusal (429) in place of `answer`, unless that costs no more: then it is not replaced. Nor is that of a
        probe.
        """
        address = address_of(scope)
        pause = self._anonymous.take(address)
        if not pause:
            await answer(scope, receive, send)
            return
        LIMITED.labels("anonymous_requests").inc()
        is_probe = scope["path"] in _PROBES and scope["method"] in _SAFE
        with self._anonymous.held(address) as seconds:
            if await _leaves(receive, min(seconds, _PROBE_SECONDS) if is_probe else seconds):
                return
        if is_replaced and not is_probe:
            error = TooManyRequests(
                "Your address has sent too many requests without a good credential. Repeat this one after the time in "
                "`Retry-After`, or send a credential: requests with one are not held back.",
                retry_after_seconds=pause,
            )
            answer = error_response(scope["path"], error)
        await answer(scope, receive, _closing(send))


class _ForPages(CORSMiddleware):
    """Lets pages of origins that were found allowed read answers, and answers their preflight requests."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, allow_methods=_METHODS, allow_headers=["*"], expose_headers=_READABLE)

    def is_allowed_origin(self, origin: str) -> bool:
        """Only requests of allowed origins come here."""
        del origin
        return True


def _needs_caller(scope: Scope) -> bool:
    if scope["method"] == "OPTIONS" or (scope["path"] in _FOR_EVERYBODY and scope["method"] in _SAFE):
        return False
    return scope["method"] not in _SAFE or scope["path"].startswith(_FOR_CALLERS)


def _is_harmless(scope: Scope, headers: Headers) -> bool:
    """Whether a page of any site may send the request: it changes nothing, and holds nothing of a caller.

    A link to something of a caller's may be followed. What a page loads by itself may not be: without a credential in
    front of it, it would use up its victim's streams and requests.
    """
    if scope["type"] == "websocket" or scope["method"] not in _SAFE:
        return False
    is_followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_followed or not _needs_caller(scope)


async def _leaves(receive: Receive, seconds: float) -> bool:
    """Wait for some seconds; whether the client has gone by then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False


def _closing(send: Send) -> Send:
    """`send`, with the header by which the connection is closed after the answer."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return closing


def _origin_of(url: str | None) -> list[str]:
    if not url:
        return []
    parts = urlsplit(url)
    return [f"{parts.scheme}://{parts.netloc}"]
