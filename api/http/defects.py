"""Answers requests that a defect has left without an answer, and keeps their connections.

Starlette answers them, too, and raises the exception again, upon which uvicorn closes the connection: the next request
that a client sends over it fails, although the server is well.
"""

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.http.problems import defect_response

log = logging.getLogger("outlast.api")


class Defects:
    """ASGI middleware around all others but the headers.

    An exception after the answer has begun ends the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Answer for `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if has_begun:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            await defect_response(scope["path"])(scope, receive, send)
