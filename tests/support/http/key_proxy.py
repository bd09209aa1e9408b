"""A reverse proxy as operators put it before the API for people who have logged in to it: it adds the API key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.http.in_process import listening, serving

_PASSED_ON = (
    "origin",
    "content-type",
    "x-namespace",
    "access-control-request-method",
    "access-control-request-headers",
)
_NOT_BACK = frozenset({"content-length", "transfer-encoding", "content-encoding", "server", "date"})


class KeyProxy:
    """Where it listens, the key that it adds, and what it was answered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = ""
        self.answers: list[tuple[str, str, int]] = []
        """Method, path and status."""


@asynccontextmanager
async def proxy_with_key(api: httpx.AsyncClient) -> AsyncIterator[KeyProxy]:
    """Pass requests on to `api`."""
    listener, url = listening()
    proxy = KeyProxy(url)

    async def passed_on(request: Request) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        if request.method != "OPTIONS":
            headers["Authorization"] = f"Bearer {proxy.key}"
        path = request.url.path
        query = dict(request.query_params.items())
        answer = await api.request(request.method, path, params=query, headers=headers, content=await request.body())
        proxy.answers.append((request.method, path, answer.status_code))
        back = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_BACK}
        return Response(answer.content, answer.status_code, back)

    route = Route("/{path:path}", passed_on, methods=["GET", "POST", "OPTIONS"])
    async with serving(Starlette(routes=[route]), listener):
        yield proxy
