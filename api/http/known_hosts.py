"""Rejects requests whose `Host` header is not a name of this server (RFC 9110, section 7.2)."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.contracts.problems import Problem
from outlast.api.http.problems import problem_response


class KnownHosts:
    """ASGI middleware against DNS rebinding: a web page must not reach a local API through a host name of its own."""

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        """Let requests for `names` through to `app`; ports do not matter."""
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; answers 400 to one for another host."""
        if scope["type"] not in ("http", "websocket") or host_of(scope) in self._names:
            await self._app(scope, receive, send)
            return
        problem = Problem(
            type="urn:outlast:problem:unknown-host",
            title="This server does not answer to that name",
            status=400,
            detail=f"The Host header names none of: {', '.join(sorted(self._names))}. Use one of them in the URL.",
            instance=scope["path"],
        )
        await problem_response(problem)(scope, receive, send)


def host_of(scope: Scope) -> str:
    """The host in the `Host` header, in lower case, without the port, and without brackets for IPv6 addresses."""
    named = Headers(scope=scope).get("host", "").lower()
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]
