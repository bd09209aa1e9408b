"""Answer schemas as MCP's forms take them."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from outlast.api.mcp.protocol.task_shapes import form_schema, from_form


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Inner(BaseModel):
    depth: int


class Plain(BaseModel):
    size: Size
    tone: Literal["calm", "loud"] = "calm"
    note: str | None = None
    sizes: list[Size] = []
    inner: Inner | None = None


class Nested(BaseModel):
    inner: Inner


def test_references_and_optional_fields_become_plain_ones_and_what_no_form_has_is_json() -> None:
    form = form_schema(Plain.model_json_schema())
    fields = form["properties"]
    assert fields["size"]["enum"] == ["small", "large"]
    assert fields["tone"]["default"] == "calm"
    assert fields["note"]["type"] == "string"
    assert "default" not in fields["note"]
    assert fields["sizes"]["items"]["enum"] == ["small", "large"]
    assert (fields["inner"]["type"], "As JSON." in fields["inner"]["description"]) == ("string", True)
    assert form["required"] == ["size"]
    assert "$defs" not in form


def test_what_was_filled_in_is_read_back() -> None:
    schema = Nested.model_json_schema()
    assert form_schema(schema)["required"] == ["inner"]
    assert from_form(schema, {"inner": '{"depth": 1}'}) == {"inner": {"depth": 1}}
    assert from_form(schema, {"inner": {"depth": 1}}) == {"inner": {"depth": 1}}
    assert from_form(schema, {"inner": "deep"}) == {"inner": "deep"}
    assert from_form(schema, {"inner": ""}) == {}
    plain = {"size": "small", "note": ""}
    assert from_form(Plain.model_json_schema(), plain) == plain
