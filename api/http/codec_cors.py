"""Lets the pages of the Temporal UI, and no other page, ask this server to decode payloads (CORS, Fetch standard)."""

from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/codec/"


class CodecCors:
    """ASGI middleware that answers preflight requests below `/codec/` and names the origin of the UI there."""

    def __init__(self, app: ASGIApp, *, ui_url: str) -> None:
        """Let pages of the origin of `ui_url` read the answers of `app`."""
        self._app = app
        parts = urlsplit(ui_url)
        self._shared = CORSMiddleware(
            app,
            allow_origins=[f"{parts.scheme}://{parts.netloc}"],
            allow_methods=["POST"],
            allow_headers=["Authorization", "Content-Type", "X-Namespace"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        is_codec = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        await (self._shared if is_codec else self._app)(scope, receive, send)
