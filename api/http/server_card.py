"""Describes the MCP server to clients before they connect: the server card (SEP-2127), and a catalog with it.

Sources: https://modelcontextprotocol.io/seps/2127-mcp-server-cards, and the extension's repository
modelcontextprotocol/experimental-ext-server-card (schema.json, docs/discovery.md). Both documents are public, and say
nothing that a caller's rights change: no tools, no names of callers.
"""

import re
from importlib.metadata import version
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import JsonValue
from pydantic_core import to_json
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from outlast.api.access.callers import CallerResolver
from outlast.api.http.documents import Document

CARD_PATH = "/mcp/server-card"
"""Reserved for the card of the server at `/mcp`."""
CARD_PATHS = (CARD_PATH, "/.well-known/mcp/server-card.json")
"""The second one is where earlier drafts had it, and where most tools still look."""
CATALOG_PATH = "/.well-known/mcp/catalog.json"
MEDIA_TYPE = "application/mcp-server-card+json"
DESCRIPTION = "Runs Apify Actors and other tools durably: calls survive crashes and are paid once."
PROTOCOL_VERSIONS = ("2025-11-25", "2026-07-28")

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_METHODS = ["GET", "OPTIONS"]
_CACHED = {"Cache-Control": "public, max-age=3600", "Vary": "Host"}
_ADDRESS = re.compile(r"[\d.]+|.*:.*")


def install_server_card(app: FastAPI, callers: CallerResolver) -> None:
    """Serve the card and the catalog of `app`; web pages may read them, as clients in browsers must."""

    async def card(scope: Scope, receive: Receive, send: Send) -> None:
        content = server_card(_endpoint(Request(scope), callers), callers)
        await Document(to_json(content), MEDIA_TYPE, _CACHED)(scope, receive, send)

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
                "type": MEDIA_TYPE,
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
