"""Checks of what browsers send along: the name of the server, and the page that a request comes from."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from outlast.api.access.web_origins import ServerNames, WebOrigins, is_origin_of
from outlast.api.errors import BadRequest, CrossSiteRequest, UnknownHost
from outlast.api.http.exchange import SAFE_METHODS
from outlast.api.http.server_card import CARD_PATH
from outlast.api.settings import ApiSettings

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MCP = "/mcp"
_CODEC = "/codec/"
_FOR_CALLERS = ("/v1/", _MCP, _CODEC)
"""Everything below these paths belongs to a caller. Elsewhere are probes, metrics and the documentation."""
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
