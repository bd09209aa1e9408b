"""Sessions of browsers at the console: a sealed cookie that names an API key, and tokens against forged requests.

The cookie holds the caller, the id of the key, a digest of the credential and an expiry, never the key. Every request
resolves it again, so that a key that is revoked, has expired or was replaced ends its sessions at once.
"""

import base64
import binascii
import hmac
import json
import secrets
import time
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from cachetools import TTLCache
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.rate_limits import address_of
from outlast.api.access.principal import Principal, Validity
from outlast.api.access.web_origins import is_origin_of
from outlast.api.errors import CrossSiteRequest, Unauthenticated
from outlast.api.http.dependencies import was_forwarded

SESSION_SECONDS = 12 * 3_600
_PURPOSE = "console session"
_TOKEN_PURPOSE = "console form"  # noqa: S105  # a purpose
_SECURE_NAME, _PLAIN_NAME = "__Host-outlast", "outlast"
"""The first is sent over TLS only, and by no other name of the same domain (RFC 6265bis, section 4.1.3)."""
_MAX_ENDED = 100_000
_WITHOUT = "local"
"""Stands for the session of a browser that needs none."""


@dataclass(frozen=True)
class _Session:
    """The content of a cookie."""

    id: str
    caller: str
    key: str | None
    """Id of the key in the policy; None for a key of OUTLAST_API_KEYS."""
    credential: str
    """Digest of the credential, which differs when the key was made again."""
    expires: float
    """Unix time."""


class BrowserSessions:
    """Opens, reads and ends sessions. Sessions that were ended are remembered in this process."""

    def __init__(self, callers: CallerResolver, sealer: SecretSealer) -> None:
        self._callers = callers
        self._sealer = sealer
        self._token_keys = tuple(sealer.derived_keys(_TOKEN_PURPOSE).values())
        self._ended = TTLCache[str, bool, float](_MAX_ENDED, SESSION_SECONDS)

    @property
    def are_needed(self) -> bool:
        """True if a browser without a session is refused."""
        return self._callers.needs_credential

    async def open(self, key: SecretStr, scope: Scope) -> tuple[Principal, str]:
        """Open a session for the sender of a request with an API key. Returns its principal and `Set-Cookie`.

        Raises what `CallerResolver.resolve` raises, and `Unauthenticated` for a token that is not an API key.
        """
        headers = Headers(scope=scope)
        principal = await self._callers.resolve(key, address=address_of(scope), is_forwarded=was_forwarded(headers))
        digest = self._callers.key_digest(principal)
        if digest is None:
            raise Unauthenticated("Log in with an API key of this server: other tokens are for programs.")
        expires = time.time() + SESSION_SECONDS
        session = _Session(secrets.token_hex(16), principal.caller.id, principal.key_id, digest, expires)
        return self._bound(session, principal), _set_cookie(scope, self._sealed(session), SESSION_SECONDS)

    async def principal_of(self, scope: Scope) -> Principal:
        """The principal of a request's session; without one, that of a request without credentials.

        Raises `Unauthenticated`.
        """
        session = self._session_of(scope)
        if session is not None and session.id not in self._ended and session.expires > time.time():
            try:
                return self._bound(session, self._callers.resumed(session.caller, session.key, session.credential))
            except Unauthenticated:
                if self.are_needed:
                    raise
        if self.are_needed:
            raise Unauthenticated("Log in to the console.")
        headers = Headers(scope=scope)
        return await self._callers.resolve(None, address=address_of(scope), is_forwarded=was_forwarded(headers))

    def end(self, scope: Scope) -> str:
        """End the session of a request, and its streams. Returns the `Set-Cookie` that removes it."""
        session = self._session_of(scope)
        if session is not None:
            self._ended[session.id] = True
            self._callers.leases.check()
        return _set_cookie(scope, "", 0)

    def has_session(self, scope: Scope) -> bool:
        """True if the request has a cookie of this server."""
        return self._session_of(scope) is not None

    def form_token(self, scope: Scope) -> str:
        """The token that forms of the request's session send along."""
        return self._tokens(scope)[0]

    def check_form(self, scope: Scope, token: str) -> None:
        """Raise `CrossSiteRequest` unless a form of the request's session sent `token`."""
        if not any(hmac.compare_digest(known, token) for known in self._tokens(scope)):
            raise CrossSiteRequest("This form is out of date, and nothing was done. Load the page again and repeat.")

    def _tokens(self, scope: Scope) -> tuple[str, ...]:
        session = self._session_of(scope)
        about = (session.id if session is not None else _WITHOUT).encode()
        return tuple(hmac.digest(key, about, "sha256").hex() for key in self._token_keys)

    def _bound(self, session: _Session, principal: Principal) -> Principal:
        """The principal, whose leases end with the session."""
        inner = principal.validity or Validity(self._callers.leases)

        def problem() -> str | None:
            has_ended = session.id in self._ended or session.expires <= time.time()
            return "The session at the console has ended." if has_ended else inner.problem()

        def ends_at() -> float:
            return min(session.expires, inner.ends_at() or session.expires)

        return replace(principal, validity=Validity(self._callers.leases, problem, ends_at))

    def _sealed(self, session: _Session) -> str:
        key_id, sealed = self._sealer.seal_bytes(json.dumps(vars(session)).encode(), purpose=_PURPOSE)
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (key_id.encode(), sealed))

    def _session_of(self, scope: Scope) -> _Session | None:
        """The session of a request's cookie; None without a cookie that this server made."""
        text = _cookie_of(scope)
        if text is None:
            return None
        try:
            key_id, sealed = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split("."))
            return _Session(**json.loads(self._sealer.open_bytes(key_id.decode(), sealed, purpose=_PURPOSE)))
        except (SealError, ValueError, TypeError, binascii.Error):
            return None


def require_own_page(scope: Scope) -> None:
    """Raise `CrossSiteRequest` unless a page of this server, at this address, sent the request.

    Stricter than for programs, which send no `Origin` (https://www.w3.org/TR/fetch-metadata): a session would be used
    without the user.
    """
    headers = Headers(scope=scope)
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    is_own_origin = len(origins) == 1 and is_origin_of(origins[0], headers.get("host", ""), scheme=scope["scheme"])
    if (sites and sites != ["same-origin"]) or (origins and not is_own_origin) or not (sites or origins):
        raise CrossSiteRequest("A page of another site sent this request, and nothing was done.")


def path_to_console(path: str) -> str:
    """The relative reference from the page at `path` to the folder of the console: a proxy may serve it elsewhere."""
    return "../" * (path.count("/") - 2) or "./"


def login_response(scope: Scope) -> Response:
    """Send the browser to the login page, which leads back.

    A link on another site is followed without the cookie (SameSite=Strict). Then the page is loaded once more, by
    itself.
    """
    if Headers(scope=scope).get("sec-fetch-site") in ("cross-site", "same-site"):
        return HTMLResponse('<!doctype html><meta http-equiv="refresh" content="0"><title>Outlast</title>')
    query = scope["query_string"].decode("latin-1")
    page = scope["path"].partition("/console/")[2] + (f"?{query}" if query else "")
    return RedirectResponse(f"{path_to_console(scope['path'])}login?{urlencode({'next': page})}", status_code=303)


def _is_secure(scope: Scope) -> bool:
    """True if the browser uses TLS, perhaps to a proxy."""
    return scope["scheme"] == "https" or Headers(scope=scope).get("origin", "").startswith("https://")


def _set_cookie(scope: Scope, value: str, seconds: int) -> str:
    is_secure = _is_secure(scope)
    name = _SECURE_NAME if is_secure else _PLAIN_NAME
    secure = "; Secure" if is_secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _cookie_of(scope: Scope) -> str | None:
    """The cookie of a session. Over TLS, only the one that no other name of the domain can set."""
    found = cookie_parser(Headers(scope=scope).get("cookie", ""))
    names = (_SECURE_NAME,) if scope["scheme"] == "https" else (_SECURE_NAME, _PLAIN_NAME)
    return next((found[name] for name in names if name in found), None)
