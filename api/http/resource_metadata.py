"""Tells OAuth clients which authorization server makes tokens for this one (RFC 9728)."""

from fastapi import FastAPI
from mcp.server.auth.routes import cors_middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from outlast.api.access.oauth.resource import OAuthResource

_METHODS = ["GET", "OPTIONS"]


def install_resource_metadata(app: FastAPI, resource: OAuthResource | None) -> None:
    """Serve the metadata of `resource` wherever clients look for it; nothing without one.

    It is public: web pages may read it, as clients in browsers must.
    """
    if resource is None:
        return

    async def metadata(_: Request) -> JSONResponse:
        return JSONResponse(resource.metadata())

    for path in resource.paths:
        route = Route(path, endpoint=cors_middleware(metadata, _METHODS), methods=_METHODS, include_in_schema=False)
        app.router.routes.append(route)
