"""Actor input: checked against the Actor's input schema, with the schema's defaults filled in.

Rules from Apify's input schema specification 1: `default` is applied by the platform, `prefill` only by its web form.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import orjson

from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.json_object import JsonObject

if TYPE_CHECKING:
    import jsonschema

log = logging.getLogger(__name__)

_KEPT = (
    "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "uniqueItems",
    "items", "properties", "required", "additionalProperties", "minProperties", "maxProperties",
)  # fmt: skip


def prepared_input(schema: JsonObject | None, body: bytes, content_type: str) -> tuple[bytes, str]:
    """The INPUT record of a run: bytes and content type. Raises `ApiError` 400 for input that breaks the schema."""
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    if schema is None:
        if body and media_type == "application/json":
            _parsed(body)
        return body, content_type or "application/json; charset=utf-8"
    if body and media_type not in {"", "application/json"}:
        raise ApiError(400, "invalid-content-type-header", "This Actor has an input schema: its input must be JSON")
    value: object = _parsed(body) if body else cast("JsonObject", {})
    if not isinstance(value, dict):
        raise ApiError(400, "invalid-input", "Input is not valid: Input must be an object")
    complete = with_defaults(schema, cast("JsonObject", value))
    problem = next(violations(schema, complete), None)
    if problem is not None:
        raise ApiError(400, "invalid-input", f"Input is not valid: {problem}")
    return orjson.dumps(complete), "application/json; charset=utf-8"


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """The input with the defaults of the properties it leaves out."""
    properties: JsonObject = schema.get("properties") or {}
    defaults = {
        name: copy.deepcopy(definition["default"])
        for name, definition in properties.items()
        if name not in value and "default" in definition
    }
    return {**value, **defaults}


def violations(schema: JsonObject, value: JsonObject) -> Iterator[str]:
    """Violations of the schema by an input, worded as on the platform."""
    # Not before a run is started: the sandbox starts sooner.
    import jsonschema.validators  # noqa: PLC0415
    from jsonschema.exceptions import UnknownType  # noqa: PLC0415

    extend = cast(Any, jsonschema.validators.extend)  # pyright: ignore[reportUnknownMemberType]
    applied: type[jsonschema.Draft7Validator] = extend(jsonschema.Draft7Validator, {"pattern": _broken_pattern})
    try:
        errors = list(applied(_json_schema(schema)).iter_errors(value))  # pyright: ignore[reportUnknownMemberType]
    except UnknownType as error:
        log.warning("An Actor's input schema is not applied, since it has an unknown type: %s", error.type)
        errors = []
    for error in errors:
        yield _sentence(error)
    yield from _broken_sources(schema, value)


def _parsed(body: bytes) -> object:
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "run-input-body-not-valid-json", f"The input is not valid JSON: {error}") from error
    return value


def _json_schema(schema: JsonObject) -> JsonObject:
    """The schema as plain JSON Schema: without Apify's editor hints, with `nullable` as a type."""
    properties: JsonObject = schema.get("properties") or {}
    return {
        "type": "object",
        "properties": {name: _property(definition) for name, definition in properties.items()},
        "required": schema.get("required", []),
        "additionalProperties": schema.get("additionalProperties", True),
    }


def _property(definition: JsonObject) -> JsonObject:
    kept = {key: definition[key] for key in _KEPT if key in definition}
    if definition.get("nullable"):
        return {"anyOf": [{"type": "null"}, kept]}
    return kept


def _broken_pattern(_validator: object, pattern: str, text: object, _schema: object) -> Iterator[object]:
    """A text that does not match a pattern of JavaScript, as the platform applies it (ECMA-262).

    One that this engine cannot read is not applied, and named in the log.
    """
    import jsonschema  # noqa: PLC0415 (see above)
    from jsonschema_rs import Draft7Validator, FancyRegexOptions  # noqa: PLC0415 (see above)

    if not isinstance(text, str):
        return
    try:
        fits = Draft7Validator(
            {"pattern": pattern}, pattern_options=FancyRegexOptions(backtrack_limit=1_000_000)
        ).is_valid(text)
    except ValueError:
        log.warning("A pattern of an Actor's input schema is not applied, since it cannot be read: %r", pattern[:200])
        return
    if not fits:
        yield jsonschema.ValidationError(f"{text[:100]!r} does not match {pattern[:200]!r}")


def _sentence(error: jsonschema.ValidationError) -> str:
    path = ".".join(["input", *(str(part) for part in error.absolute_path)])
    match error.validator:
        case "required":
            given = cast("JsonObject", error.instance)
            missing = next(name for name in cast("list[str]", error.validator_value) if name not in given)
            return f"Field {path}.{missing} is required"
        case "type":
            return f"Field {path} must be {error.validator_value}"
        case "enum":
            allowed = ", ".join(orjson.dumps(choice).decode() for choice in cast("list[Any]", error.validator_value))
            return f"Field {path} must be equal to one of the allowed values: {allowed}"
        case "minimum" | "maximum":
            sign = ">=" if error.validator == "minimum" else "<="
            return f"Field {path} must be {sign} {error.validator_value}"
        case "additionalProperties":
            return f"Field {path} must NOT have additional properties: {error.message}"
        case _:
            return f"Field {path} is not valid: {error.message}"


def _broken_sources(schema: JsonObject, value: JsonObject) -> Iterator[str]:
    properties: JsonObject = schema.get("properties") or {}
    for name, definition in properties.items():
        if definition.get("editor") != "requestListSources" or not isinstance(value.get(name), list):
            continue
        for position, source in enumerate(cast("list[Any]", value[name])):
            if not isinstance(source, dict) or not ({"url", "requestsFromUrl"} & cast("JsonObject", source).keys()):
                yield f"Field input.{name}.{position} must be an object with 'url' or 'requestsFromUrl'"
