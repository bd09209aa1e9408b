"""HTTP requests of the client, and how httpx sends them. Shared by both clients."""

import json
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from outlast.client.connection import Connection

Params = tuple[tuple[str, str], ...]
CONNECT_SECONDS = 10.0
HEADERS = {"User-Agent": "outlast-client"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `path` starts with a slash; `timeout_seconds` is the longest silence, None the client's own.

    `content` is sent as it is, `body` as JSON.
    """

    method: str
    path: str
    params: Params = ()
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: JsonValue = None
    timeout_seconds: float | None = None
    content: bytes | None = None


def path(*parts: str) -> str:
    """The path of a resource: `path("tasks", "t 1")` is `/v1/tasks/t%201`."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def query(**values: Any) -> Params:
    """Query parameters without those that are None; `from_` stands for `from`."""
    return tuple((name.rstrip("_"), _text(value)) for name, value in values.items() if value is not None)


def idempotency(key: str | None) -> dict[str, str]:
    """Headers that make a request safe to repeat when its answer is lost. Without `key` it gets a new one."""
    return {"Idempotency-Key": key or secrets.token_hex(16)}


def timeout_of(seconds: float) -> httpx.Timeout:
    """The longest silence; connecting has its own limit."""
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def settings(connection: Connection, timeout_seconds: float) -> dict[str, Any]:
    """Arguments of httpx's clients for a server."""
    return {
        "base_url": connection.url,
        "headers": HEADERS,
        "timeout": timeout_of(timeout_seconds),
        # Proxies of the environment are not meant for this machine.
        "trust_env": not connection.is_loopback,
        # Reading the machine's authorities takes 20 ms: it is left out where there are no certificates to check.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if connection.url.startswith("http://") else True,
    }


def build(http: httpx.Client | httpx.AsyncClient, request: HttpRequest, headers: dict[str, str]) -> httpx.Request:
    """The request as httpx sends it; its own headers override `headers`."""
    built = http.build_request(
        request.method,
        request.path,
        params=list(request.params) or None,
        headers=headers | request.headers,
        json=request.body,
        content=request.content,
    )
    if request.timeout_seconds is not None:
        built.extensions["timeout"] = timeout_of(request.timeout_seconds).as_dict()
    return built


def json_lines(values: Iterable[JsonValue]) -> bytes:
    """Values as lines of JSON."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def _text(value: object) -> str:
    return "true" if value is True else "false" if value is False else str(value)
