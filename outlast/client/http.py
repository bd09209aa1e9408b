"""Shared by both transports: httpx's settings, requests and errors in the terms of the flows."""

import ssl

import httpx

from outlast.client.connection import Connection
from outlast.client.flows.commands import HttpRequest, HttpResponse, TransportFailure

CONNECT_SECONDS = 10.0
HEADERS = {"User-Agent": "outlast-client"}


def timeout_of(seconds: float) -> httpx.Timeout:
    """The longest silence; connecting has its own limit."""
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def trusts_environment(connection: Connection) -> bool:
    """Whether proxies of the environment are used: not for this machine, for which they are not meant."""
    return not connection.is_loopback


def trusted_by(connection: Connection) -> ssl.SSLContext | bool:
    """What httpx checks certificates with (its `verify`): where there are none to check, not the machine's authorities.

    Reading them takes 20 ms, which is a tenth of a short command.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if connection.url.startswith("http://") else True


def built(http: httpx.Client | httpx.AsyncClient, request: HttpRequest, *, streams: bool = False) -> httpx.Request:
    """The request as httpx sends it."""
    # The server's ranges count the bytes of the content itself.
    headers = request.headers | ({"Accept-Encoding": "identity"} if streams else {})
    built = http.build_request(
        request.method,
        request.path,
        params=list(request.params) or None,
        headers=headers,
        json=request.body,
        content=request.content,
    )
    if request.timeout_seconds is not None:
        built.extensions["timeout"] = timeout_of(request.timeout_seconds).as_dict()
    return built


def response_of(response: httpx.Response, body: bytes = b"") -> HttpResponse:
    """The response as the flows read it."""
    return HttpResponse(response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


def failure_of(error: httpx.TransportError) -> TransportFailure:
    """The failure as the flows know it."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return TransportFailure("refused")
    return TransportFailure("silent" if isinstance(error, httpx.TimeoutException) else "lost")
