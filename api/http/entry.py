"""The entry pipeline of the API: everything between the socket and a route, in the order in which it is checked."""

import asyncio
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api import errors
from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.caller_limits import CallerLimits, CallerSlots, Slot
from outlast.api.access.limits.rate_limits import AnonymousRequests
from outlast.api.access.principal import Principal
from outlast.api.access.web_origins import ServerNames, WebOrigins, is_origin_of
from outlast.api.audit.records import set_key
from outlast.api.http.browser_sessions import BrowserSessions, login_response
from outlast.api.http.dependencies import PRINCIPAL_STATE, bearer_token, resolved_principal
from outlast.api.http.documents import CARD_PATH
from outlast.api.http.exchange import SAFE_METHODS, Exchange
from outlast.api.http.request_body import BodyChecks, JsonLimits
from outlast.api.metrics import LIMITED
from outlast.api.settings import ApiSettings

_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""An orchestrator whose probe is refused would kill the process."""
_PROBE_SECONDS = 0.5
"""Longest delay of a probe. Kubernetes gives up after a second."""


class AnonymousLimit:
    """Delays the responses to an address that sends too many requests, and closes the connection after each.

    Without this, requests that are sent without waiting for responses would take all the time of the process.
    """

    def __init__(self, requests_per_second: float) -> None:
        """Answer `requests_per_second` of each address without delay."""
        self._requests = AnonymousRequests(requests_per_second)

    async def admits(self, exchange: Exchange, *, is_refused: bool = False) -> bool:
        """Return True if the request is to be answered now; its response may be the last one of its connection.

        Beyond the limit, the request is answered with 429 here, late. Probes, and requests that are refused anyway
        (`is_refused`), are only delayed: their own responses cost no more.
        """
        pause = self._requests.take(exchange.address)
        if not pause:
            return True
        LIMITED.labels("anonymous_requests").inc()
        is_probe = exchange.path in _PROBES and exchange.is_safe
        with self._requests.held(exchange.address) as seconds:
            if await _has_left(exchange.receive, min(seconds, _PROBE_SECONDS) if is_probe else seconds):
                return False
        exchange.closes_connection = True
        if is_refused or is_probe:
            return True
        await exchange.refuse(
            errors.TooManyRequests(
                "Your address has sent too many requests without a valid credential. Repeat this one after the time in "
                "`Retry-After`, or send a credential: requests with one are not delayed.",
                retry_after_seconds=pause,
            )
        )
        return False


async def _has_left(receive: Receive, seconds: float) -> bool:
    """Wait `seconds`; return True as soon as the client disconnects."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MCP = "/mcp"
_CODEC = "/codec/"
_FOR_CALLERS = ("/v1/", _MCP, _CODEC)
"""Everything below these paths belongs to a caller. Elsewhere are probes, metrics and the documentation."""
_CONSOLE = "/console/"
"""Pages below it belong to a caller with a session of its browser, except these."""
_FOR_ALL_BROWSERS = ("/console/login", "/console/static/")
_OWN_SITE = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site`. `none` is the user's own action: an address typed, a bookmark."""
_READABLE = (
    "Mcp-Session-Id",
    "WWW-Authenticate",
    "Retry-After",
    "X-Request-Id",
    "ETag",
    "RateLimit",
    "RateLimit-Policy",
)
"""Headers of responses that pages of other origins may read."""


class SiteChecks:
    """The names of this server, and the origins whose pages may use it."""

    def __init__(self, settings: ApiSettings) -> None:
        """Loopback servers are called by loopback names only; others check names if `settings` lists some."""
        self._names = ServerNames(LOOPBACK_NAMES if settings.is_loopback else settings.hosts)
        self._named_paths = ("",) if settings.is_loopback else (_MCP,) if settings.hosts else ()
        self._pages = WebOrigins(settings.origins)
        self._codec_pages = WebOrigins(_origin_of(settings.temporal_ui_url))

    def is_cross_origin(self, scope: Scope) -> bool:
        """Return True for a request from a page of another origin that may send it and read the response.

        Raises `UnknownHost`, `CrossSiteRequest` and `BadRequest`.
        """
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["path"].startswith(self._named_paths) and host not in self._names:
            raise errors.UnknownHost(f"The Host header names none of: {self._names}. Use one of them in the URL.")
        if len(headers.getlist("authorization")) > 1:
            raise errors.BadRequest("The request has several Authorization headers. Send only one.")
        sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
        if sites and _OWN_SITE.issuperset(sites):
            return False
        if len(origins) == 1 and self._is_allowed(origins[0], scope["path"]):
            return True
        is_program = not sites and not origins
        is_own = not sites and len(origins) == 1 and is_origin_of(origins[0], host, scheme=scope["scheme"])
        if is_program or is_own or _is_harmless(scope, headers):
            return False
        raise errors.CrossSiteRequest(
            "A web page of another site sent this request, and nothing was done. If its pages may use this server, "
            "name their origin in OUTLAST_ALLOWED_ORIGINS."
        )

    def _is_allowed(self, origin: str, path: str) -> bool:
        return origin in self._pages or (path.startswith(_CODEC) and origin in self._codec_pages)


class CrossOriginHeaders(CORSMiddleware):
    """Headers for pages of other origins, once these were found allowed."""

    def __init__(self) -> None:
        """Used without an app, for its headers alone."""
        super().__init__(_no_app, allow_methods=_METHODS, allow_headers=["*"], expose_headers=_READABLE)

    def is_allowed_origin(self, origin: str) -> bool:
        """Return True: `SiteChecks` refuses the others."""
        del origin
        return True


def needs_caller(scope: Scope) -> bool:
    """Return True if only a known caller may send the request."""
    # The card describes how to become a caller.
    if scope["method"] == "OPTIONS" or (scope["path"] == CARD_PATH and scope["method"] in SAFE_METHODS):
        return False
    if scope["path"].startswith(_CONSOLE):
        return not scope["path"].startswith(_FOR_ALL_BROWSERS)
    return scope["method"] not in SAFE_METHODS or scope["path"].startswith(_FOR_CALLERS)


def _is_harmless(scope: Scope, headers: Headers) -> bool:
    """Return True if a page of any site may send the request: it changes nothing, and holds nothing of a caller.

    The user may follow a link to a resource of a caller. A page may not load one by itself: without a credential in
    front of it, it would use up its victim's streams and requests.
    """
    if scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS:
        return False
    is_followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_followed or not needs_caller(scope)


async def _no_app(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotImplementedError


def _origin_of(url: str | None) -> list[str]:
    if not url:
        return []
    parts = urlsplit(url)
    return [f"{parts.scheme}://{parts.netloc}"]


_DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # No response of the API is a page. Those that are set their own policy.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_MCP_GRACE_SECONDS = 0.5
"""Time for the MCP server to answer a request with a JSON-RPC error when the credential ends."""
_STREAMS = ("/events", "/rows", "/results", "/export", "/mcp")
"""Last parts of the paths of responses that may stay open until a task ends, or their client has read them."""
_DOWNLOADS = "/v1/outputs/"
_LIVE = "/console/live/"
"""Streams of changes of the console's pages."""


class Entry:
    """ASGI middleware around the routes and the MCP server. Each step passes the exchange on, or answers it.

    1. `_check_site`: the name of the server and the page that sends the request (400, 403), CORS.
    2. `_identify`: the caller (401, 503); addresses without a credential have a limit (429).
    3. `_limit`: the caller's requests, streams and waits (429).
    4. `_bind`: the response ends when the credential does.
    5. `_read_body`: size, structure, text and numbers of the body (413, 422).

    `Exchange` adds headers to the response, counts it, and answers 500 for exceptions.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ApiSettings,
        callers: CallerResolver,
        limits: CallerLimits,
        sessions: BrowserSessions | None = None,
    ) -> None:
        """Check what reaches `app`, which finds the principal in the scope. Without `sessions`, there is no console."""
        self._app = app
        self._sessions = sessions
        self._callers = callers
        self._limits = limits
        self._sites = SiteChecks(settings)
        self._cors = CrossOriginHeaders()
        self._anonymous = AnonymousLimit(settings.anonymous_requests_per_second)
        structure = JsonLimits(max_values=settings.max_body_values, max_depth=settings.max_body_depth)
        self._bodies = BodyChecks(settings.max_body_bytes, structure, CallerSlots(limits.served))
        # Browsers use HTTPS only for a server that says so (RFC 6797).
        hsts = {"Strict-Transport-Security": f"max-age={settings.hsts_seconds}"} if settings.hsts_seconds else {}
        self._headers = {**_DEFAULT_HEADERS, **hsts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._headers)
        try:
            await self._check_site(exchange)
        except ClientDisconnect:
            pass  # while its body was read: nobody reads a response
        except Exception as error:
            if not await exchange.fail(error):
                raise
        finally:
            exchange.finish()

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the start and end of the process, and WebSockets that pages may open."""
        try:
            if scope["type"] == "websocket":
                self._sites.is_cross_origin(scope)
        except errors.ApiError as error:
            await send({"type": "websocket.close", "code": 1008, "reason": error.title})
            return
        await self._app(scope, receive, send)

    async def _check_site(self, exchange: Exchange) -> None:
        try:
            exchange.cors = self._cors if self._sites.is_cross_origin(exchange.scope) else None
        except errors.ApiError as error:
            if await self._anonymous.admits(exchange, is_refused=True):
                await exchange.refuse(error)
            return
        if needs_caller(exchange.scope):
            await self._identify(exchange)
        elif await self._anonymous.admits(exchange):
            is_preflight = exchange.method == "OPTIONS" and "access-control-request-method" in exchange.headers
            preflight = exchange.cors.preflight_response(exchange.headers) if exchange.cors and is_preflight else None
            await exchange.answer(preflight or self._app)

    async def _identify(self, exchange: Exchange) -> None:
        if self._sessions is not None and exchange.path.startswith(_CONSOLE):
            await self._identify_browser(exchange, self._sessions)
            return
        has_bearer = bearer_token(exchange.headers) is not None
        is_stranger = self._callers.needs_credential and not has_bearer
        # Before the refusal, which is recorded.
        if is_stranger and not await self._anonymous.admits(exchange):
            return
        try:
            principal = await resolved_principal(exchange.scope, self._callers)
        except errors.ApiError as error:
            # The caller resolver limits guesses.
            is_guess = has_bearer and isinstance(error, errors.Unauthenticated) and not error.is_repeated
            if is_stranger or is_guess or await self._anonymous.admits(exchange):
                await exchange.refuse(error)
            return
        exchange.scope[PRINCIPAL_STATE] = principal
        await self._limit(exchange, principal)

    async def _identify_browser(self, exchange: Exchange, sessions: BrowserSessions) -> None:
        try:
            principal = await sessions.principal_of(exchange.scope)
        except errors.ApiError as error:
            if not await self._anonymous.admits(exchange):
                return
            is_page = exchange.is_safe and not exchange.path.startswith(_LIVE)
            if is_page and isinstance(error, errors.Unauthenticated):
                await exchange.answer(login_response(exchange.scope))
            else:
                await exchange.refuse(error)
            return
        set_key(principal.key_id)
        exchange.scope[PRINCIPAL_STATE] = principal
        await self._limit(exchange, principal)

    async def _limit(self, exchange: Exchange, principal: Principal) -> None:
        caller_id = principal.caller.id
        exchange.limit(self._limits, caller_id)
        with ExitStack() as held:
            try:
                self._limits.take_request(caller_id)
                held.enter_context(self._limits.slot(caller_id, _slot_of(exchange)))
            except errors.TooManyRequests as error:
                await exchange.refuse(error)
                return
            await self._bind(exchange, principal)

    async def _bind(self, exchange: Exchange, principal: Principal) -> None:
        answers_itself = exchange.path == "/mcp" and exchange.method == "POST"
        try:
            async with principal.lease(grace_seconds=_MCP_GRACE_SECONDS if answers_itself else 0.0):
                await self._read_body(exchange, principal.caller.id)
        except errors.CredentialEnded as error:
            await exchange.end(error)

    async def _read_body(self, exchange: Exchange, caller_id: str) -> None:
        async with self._bodies.checked(exchange, caller_id) as refusal:
            await exchange.answer(refusal or self._app)


def _slot_of(exchange: Exchange) -> Slot:
    """The slot that the request holds until it is answered: a stream, or a wait.

    Depends on the request alone, so that a refused request has done nothing. A POST that is answered with a stream
    waits for its result, and counts as waiting.
    """
    path = exchange.path.rstrip("/")
    is_download = path.startswith(_DOWNLOADS) and not path.endswith("/info")
    is_stream = path.endswith(_STREAMS) or path.startswith(_LIVE) or is_download
    return "open_streams" if exchange.method == "GET" and is_stream else "waiting_requests"
