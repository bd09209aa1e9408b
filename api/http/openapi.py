"""The published OpenAPI document, mended where FastAPI describes refusals otherwise than they are answered."""

from typing import Any

from fastapi import FastAPI

from outlast.api.contracts.problems import MEDIA_TYPE, Problem

_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def publish_openapi(app: FastAPI) -> None:
    """Have `app` describe every refusal as what it is: a problem document (RFC 9457)."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _mended(described())
        return app.openapi_schema

    app.openapi = openapi


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and _is_a_problem(response):
                    response["content"] = {MEDIA_TYPE: {"schema": _REFERENCE}}
    schemas = document["components"]["schemas"]
    for name in _NOT_OURS:
        schemas.pop(name, None)
    schemas["Problem"], definitions = _problem_schema()
    schemas.update(definitions)
    return document


def _is_a_problem(response: dict[str, Any]) -> bool:
    """Whether it is described as a problem, or in FastAPI's own shape, which is never answered here."""
    content = response.get("content", {})
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return MEDIA_TYPE in content or named.rpartition("/")[2] in _NOT_OURS


def _problem_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return schema, schema.pop("$defs", {})
