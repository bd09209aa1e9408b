"""Metadata that names the authorization server for this server (RFC 9728)."""

from fastapi import FastAPI
from pydantic_core import to_json
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from outlast.api.access.oauth.resource import OAuthResource
from outlast.api.http.documents import Document

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
