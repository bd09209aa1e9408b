"""Documents that are the same for everybody: OpenAPI with its page `/docs`, and the cards that describe the server.

Each is bytes with an ETag, so that none is made twice (RFC 9110, 8.8). `/docs` is Swagger UI with the assets of
`fastapi-swagger`, served from this process, so that it works without internet. Its Content Security Policy allows no
other origin, so the script is a separate file. Sources of the server card (SEP-2127) and of the catalog with it:
https://modelcontextprotocol.io/seps/2127-mcp-server-cards and modelcontextprotocol/experimental-ext-server-card.
The metadata that names the authorization server is RFC 9728.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import JsonValue
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.access.callers import CallerResolver
from outlast.api.access.oauth.resource import OAuthResource
from outlast.contracts.base import MEDIA_TYPE, Problem


class Document:
    """An ASGI application that answers with one document, or with 304 to a client that has it already."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer with `body` and `headers`. Without a `Cache-Control` among them, clients revalidate each time."""
        self._body = body
        self._etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        own = {"ETag": self._etag, "Cache-Control": "no-cache", **(headers or {})}
        self._headers = [(name.lower().encode(), value.encode()) for name, value in own.items()]
        self._whole = [
            *self._headers,
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one GET or HEAD request."""
        del receive
        if self._is_known(Headers(scope=scope)):
            await send({"type": "http.response.start", "status": 304, "headers": list(self._headers)})
            await send({"type": "http.response.body"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(self._whole)})
        body = b"" if scope["method"] == "HEAD" else self._body
        await send({"type": "http.response.body", "body": body})

    def _is_known(self, headers: Headers) -> bool:
        """Return True if the client names this version (RFC 9110, section 13.1.2: weak comparison)."""
        named = (tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(","))
        return any(tag in (self._etag, "*") for tag in named)


class _Endpoint:
    """An application that a route takes for one: of a function it would make a handler of requests."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        self.path = path
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self  # metrics count by its path, as FastAPI does it for its own routes
        await self._app(scope, receive, send)


def route_of(path: str, app: ASGIApp) -> Route:
    """The route for GET and HEAD that `app` serves. The API's own document does not have it."""
    return Route(path, endpoint=_Endpoint(path, app), methods=["GET"], include_in_schema=False)


PATH = "/openapi.json"
_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")


def publish_openapi(app: FastAPI) -> None:
    """Serve the description of `app`, with every error as a problem document (RFC 9457).

    Build `app` with `openapi_url=None`: FastAPI writes the document for each request again.
    """
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(described())
        return app.openapi_schema

    app.openapi = openapi
    lock = asyncio.Lock()
    made: list[Document] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async with lock:
            if not made:
                # Half a second of work, once: others are served meanwhile.
                body = await asyncio.to_thread(lambda: json.dumps(app.openapi(), separators=(",", ":")).encode())
                made.append(Document(body, "application/json"))
        await made[0](scope, receive, send)

    app.router.routes.append(route_of(PATH, serve))


def _corrected(document: dict[str, Any]) -> dict[str, Any]:
    for path in document["paths"].values():
        for operation in path.values():
            if "requestBody" in operation:
                operation["responses"].setdefault(
                    "400", {"description": "The body is not valid JSON.", "content": {MEDIA_TYPE: {}}}
                )
                operation["responses"]["415"] = {
                    "description": "The Content-Type header is not that of JSON.",
                    "content": {MEDIA_TYPE: {}},
                }
            if "401" in operation["responses"]:
                operation["responses"]["429"] = {
                    "description": "A limit is exceeded; repeat the request after the time in `Retry-After`.",
                    "content": {MEDIA_TYPE: {}},
                }
            for status, response in operation["responses"].items():
                if int(status) >= 400 and _is_a_problem(response):
                    response["content"] = {MEDIA_TYPE: {"schema": _REFERENCE}}
    schemas = document["components"]["schemas"]
    for name in _FASTAPI_ERRORS:
        schemas.pop(name, None)
    schemas["Problem"], definitions = _problem_schema()
    schemas.update(definitions)
    return document


def _is_a_problem(response: dict[str, Any]) -> bool:
    """Return True for a problem document, or FastAPI's own shape, which this API never sends."""
    content = response.get("content", {})
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return MEDIA_TYPE in content or named.rpartition("/")[2] in _FASTAPI_ERRORS


def _problem_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return schema, schema.pop("$defs", {})


_ASSETS = files("fastapi_swagger") / "resources"
_SCRIPT = "text/javascript; charset=utf-8"
_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Outlast API</title>
  <link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="docs/swagger-ui-bundle.js"></script>
  <script src="docs/start.js"></script>
</body>
</html>
"""
_START = """
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
"""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def install_docs(app: FastAPI) -> None:
    """Serve `/docs` and its assets. Build `app` with `docs_url=None` and `redoc_url=None`: theirs come from a CDN."""
    documents = {
        "/docs": Document(_PAGE.encode(), "text/html; charset=utf-8", _HEADERS),
        "/docs/swagger-ui-bundle.js": Document(_asset("swagger-ui-bundle.js"), _SCRIPT, _HEADERS),
        "/docs/swagger-ui.css": Document(_asset("swagger-ui.css"), "text/css; charset=utf-8", _HEADERS),
        "/docs/start.js": Document(_START.encode(), _SCRIPT, _HEADERS),
    }
    app.router.routes.extend(route_of(path, document) for path, document in documents.items())


def _asset(name: str) -> bytes:
    return (_ASSETS / name).read_bytes()


_METHODS = ["GET", "OPTIONS"]
_VERSION_HEADER = "mcp-protocol-version"
"""Clients send it with every request, so browsers ask whether they may."""


def install_resource_metadata(app: FastAPI, resource: OAuthResource | None) -> None:
    """Serve the metadata of `resource` wherever clients look for it; nothing without one.

    It is public: web pages may read it, as clients in browsers must.
    """
    if resource is None:
        return

    async def metadata(scope: Scope, receive: Receive, send: Send) -> None:
        # The policy may have changed.
        await Document(to_json(resource.metadata()), "application/json")(scope, receive, send)

    endpoint = CORSMiddleware(metadata, allow_origins="*", allow_methods=_METHODS, allow_headers=[_VERSION_HEADER])
    for path in resource.paths:
        route = Route(path, endpoint=endpoint, methods=_METHODS, include_in_schema=False)
        app.router.routes.append(route)


CARD_PATH = "/mcp/server-card"
"""Reserved for the card of the server at `/mcp`."""
CARD_PATHS = (CARD_PATH, "/.well-known/mcp/server-card.json")
"""The second one is where earlier drafts had it, and where most tools still look."""
CATALOG_PATH = "/.well-known/mcp/catalog.json"
CARD_MEDIA_TYPE = "application/mcp-server-card+json"
DESCRIPTION = "Runs Apify Actors and other tools durably: calls survive crashes and are paid once."
PROTOCOL_VERSIONS = ("2025-11-25", "2026-07-28")

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_CACHED = {"Cache-Control": "public, max-age=3600", "Vary": "Host"}
_ADDRESS = re.compile(r"[\d.]+|.*:.*")


def install_server_card(app: FastAPI, callers: CallerResolver) -> None:
    """Serve the card and the catalog of `app`; web pages may read them, as clients in browsers must."""

    async def card(scope: Scope, receive: Receive, send: Send) -> None:
        content = server_card(_endpoint(Request(scope), callers), callers)
        await Document(to_json(content), CARD_MEDIA_TYPE, _CACHED)(scope, receive, send)

    async def catalog(scope: Scope, receive: Receive, send: Send) -> None:
        content = server_catalog(_endpoint(Request(scope), callers))
        await Document(to_json(content), "application/json", _CACHED)(scope, receive, send)

    for path, respond in (*((path, card) for path in CARD_PATHS), (CATALOG_PATH, catalog)):
        endpoint = CORSMiddleware(respond, allow_origins="*", allow_methods=_METHODS, allow_headers=["Content-Type"])
        app.router.routes.append(Route(path, endpoint=endpoint, methods=_METHODS, include_in_schema=False))


def server_card(endpoint: str, callers: CallerResolver) -> dict[str, JsonValue]:
    """The card of the server whose MCP endpoint is at `endpoint`."""
    remote: dict[str, JsonValue] = {
        "type": "streamable-http",
        "url": endpoint,
        "supportedProtocolVersions": list(PROTOCOL_VERSIONS),
    }
    # Where there is an authorization server, clients log in there, and its metadata says so.
    if callers.needs_credential and callers.resource is None:
        remote["headers"] = [
            {
                "name": "Authorization",
                "description": "`Bearer` and an API key of this server, or an Apify token.",
                "isRequired": True,
                "isSecret": True,
            }
        ]
    return {
        "$schema": _SCHEMA,
        "name": f"{_reversed(_host(endpoint))}/outlast",
        "title": "Outlast",
        "description": DESCRIPTION,
        "version": version("outlast"),
        "remotes": [remote],
    }


def server_catalog(endpoint: str) -> dict[str, JsonValue]:
    """The catalog of the domain, with this one server."""
    return {
        "specVersion": "draft",
        "entries": [
            {
                "identifier": f"urn:air:{_host(endpoint)}:outlast",
                "displayName": "Outlast",
                "type": CARD_MEDIA_TYPE,
                "url": f"{endpoint}/server-card",
            }
        ],
    }


def _endpoint(request: Request, callers: CallerResolver) -> str:
    """The address of `/mcp` as this client reaches it; the one that tokens are made for, where there are such."""
    if callers.resource is not None and urlsplit(callers.resource.url).path.rstrip("/") == "/mcp":
        return callers.resource.url.rstrip("/")
    return str(request.base_url.replace(path="/mcp", query=""))


def _host(endpoint: str) -> str:
    return urlsplit(endpoint).hostname or "localhost"


def _reversed(host: str) -> str:
    """`com.example.tools` for `tools.example.com`; an address stays as it is, with what a name may contain."""
    if _ADDRESS.fullmatch(host):
        return host.replace(":", "-").strip("-") or "localhost"
    return ".".join(reversed(host.split(".")))
