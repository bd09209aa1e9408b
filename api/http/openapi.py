"""The published OpenAPI document, corrected where FastAPI's description of errors differs from the actual responses."""

import asyncio
import json
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from outlast.api.http.documents import Document, route_of
from outlast.contracts.base import MEDIA_TYPE, Problem

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
                    "description": "The Content-Type header does not say JSON.",
                    "content": {MEDIA_TYPE: {}},
                }
            if "401" in operation["responses"]:
                operation["responses"]["429"] = {
                    "description": "More than a limit allows; `Retry-After` says when to repeat the request.",
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
