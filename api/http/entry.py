"""The entry pipeline of the API: everything between the socket and a route, in the order in which it is checked."""

from contextlib import ExitStack

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.caller_limits import CallerLimits, Slot
from outlast.api.access.limits.caller_slots import CallerSlots
from outlast.api.access.principal import Principal
from outlast.api.errors import ApiError, CredentialEnded, TooManyRequests, Unauthenticated
from outlast.api.http.anonymous_limit import AnonymousLimit
from outlast.api.http.credentials import PRINCIPAL_STATE, bearer_token, resolved_principal
from outlast.api.http.exchange import Exchange
from outlast.api.http.json_limits import JsonLimits
from outlast.api.http.request_body import BodyChecks
from outlast.api.http.site_checks import CrossOriginHeaders, SiteChecks, needs_caller
from outlast.api.settings import ApiSettings

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


class Entry:
    """ASGI middleware around the routes and the MCP server. Each step passes the exchange on, or answers it.

    1. `_check_site`: the name of the server and the page that sends the request (400, 403), CORS.
    2. `_identify`: the caller (401, 503); addresses without a credential have a limit (429).
    3. `_limit`: the caller's requests, streams and waits (429).
    4. `_bind`: the response ends when the credential does.
    5. `_read_body`: size, structure, text and numbers of the body (413, 422).

    `Exchange` adds headers to the response, counts it, and answers 500 for exceptions.
    """

    def __init__(self, app: ASGIApp, *, settings: ApiSettings, callers: CallerResolver, limits: CallerLimits) -> None:
        """Check what reaches `app`, which finds the principal in the scope."""
        self._app = app
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
        except ApiError as error:
            await send({"type": "websocket.close", "code": 1008, "reason": error.title})
            return
        await self._app(scope, receive, send)

    async def _check_site(self, exchange: Exchange) -> None:
        try:
            exchange.cors = self._cors if self._sites.is_cross_origin(exchange.scope) else None
        except ApiError as error:
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
        has_bearer = bearer_token(exchange.headers) is not None
        is_stranger = self._callers.needs_credential and not has_bearer
        # Before the refusal, which is recorded.
        if is_stranger and not await self._anonymous.admits(exchange):
            return
        try:
            principal = await resolved_principal(exchange.scope, self._callers)
        except ApiError as error:
            # The caller resolver limits guesses.
            is_guess = has_bearer and isinstance(error, Unauthenticated) and not error.is_repeated
            if is_stranger or is_guess or await self._anonymous.admits(exchange):
                await exchange.refuse(error)
            return
        exchange.scope[PRINCIPAL_STATE] = principal
        await self._limit(exchange, principal)

    async def _limit(self, exchange: Exchange, principal: Principal) -> None:
        caller_id = principal.caller.id
        exchange.limit(self._limits, caller_id)
        with ExitStack() as held:
            try:
                self._limits.take_request(caller_id)
                held.enter_context(self._limits.slot(caller_id, _slot_of(exchange)))
            except TooManyRequests as error:
                await exchange.refuse(error)
                return
            await self._bind(exchange, principal)

    async def _bind(self, exchange: Exchange, principal: Principal) -> None:
        answers_itself = exchange.path == "/mcp" and exchange.method == "POST"
        try:
            async with principal.lease(grace_seconds=_MCP_GRACE_SECONDS if answers_itself else 0.0):
                await self._read_body(exchange, principal.caller.id)
        except CredentialEnded as error:
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
    is_stream = path.endswith(_STREAMS) or (path.startswith(_DOWNLOADS) and not path.endswith("/info"))
    return "open_streams" if exchange.method == "GET" and is_stream else "waiting_requests"
