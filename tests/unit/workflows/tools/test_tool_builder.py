"""A tool is defined through the builder, and never changes afterwards."""

import dataclasses
import json
from typing import Any

import pytest
from pydantic import Field, ValidationError

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.tool import (
    Arguments,
    Category,
    NoArguments,
    Tool,
    ToolAnnotations,
    tool,
    with_description,
)
from outlast.workflows.tools.registry import COMMON, MODES, actor_tool_of, tools_of


class Inner(Arguments):
    depth: int = Field(default=1, ge=1)


class Given(Arguments):
    name: str = Field(min_length=1)
    page_size: int = Field(default=10, alias="pageSize", le=100)
    inner: Inner = Inner()


async def answer(ctx: HandlerContext, arguments: Given) -> ToolResult:
    return ToolResult()


def built() -> Tool:
    return (
        tool("look-up")
        .category(Category.RUNS)
        .describe("  Looks something up.  ")
        .annotate(ToolAnnotations(title="Look up", read_only=True))
        .args(Given)
        .output(Inner)
        .meta(first=1)
        .meta(second={"nested": [1]})
        .server(answer)
        .build()
    )


def test_every_step_ends_up_in_the_definition() -> None:
    definition = built()
    assert (definition.name, definition.category, definition.description) == (
        "look-up",
        "runs",
        "Looks something up.",
    )
    assert definition.annotations == ToolAnnotations(title="Look up", read_only=True)
    assert definition.meta == {"first": 1, "second": {"nested": [1]}}
    assert set(definition.input_schema["properties"]) == {"name", "pageSize", "inner"}  # type: ignore[arg-type]
    assert definition.input_schema["additionalProperties"] is False
    assert definition.output_schema is not None
    assert definition.handler is answer


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Tool)])
def test_no_field_of_a_definition_can_be_set(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(built(), name, None)


def test_no_new_attribute_can_be_set() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        built().extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("attribute", ["input_schema", "output_schema", "meta"])
def test_changing_what_a_definition_hands_out_does_not_change_it(attribute: str) -> None:
    definition = built()
    before = json.dumps(getattr(definition, attribute))
    handed_out = getattr(definition, attribute)
    handed_out.clear()
    assert json.dumps(getattr(definition, attribute)) == before


def test_changing_the_builder_afterwards_does_not_change_the_definition() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    builder = tool("t").category(Category.RUNS).describe("d").args_schema(schema).server(answer)
    definition = builder.build()
    schema["properties"]["late"] = {}
    builder.describe("other").meta(late=True)
    assert (definition.input_schema["properties"], definition.description, definition.meta) == ({}, "d", {})


def test_a_variant_is_a_new_definition() -> None:
    definition = built()
    variant = with_description(definition, "Otherwise.")
    assert (variant.description, definition.description) == ("Otherwise.", "Looks something up.")
    assert dataclasses.replace(variant, description=definition.description) == definition


@pytest.mark.parametrize(
    ("builder", "missing"),
    [
        (tool("t").category(Category.RUNS).describe("d"), r"\.server\(handler\)"),
        (tool("t").describe("d").server(answer), r"\.category"),
        (tool("t").category(Category.RUNS).describe("  ").args(Given).server(answer), r"\.describe"),
    ],
)
def test_a_definition_without_a_necessary_step_says_which(builder: Any, missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        builder.build()


def test_a_tool_without_arguments_accepts_none() -> None:
    async def no_arguments(ctx: HandlerContext, arguments: NoArguments) -> ToolResult:
        return ToolResult()

    definition = tool("t").category(Category.RUNS).describe("d").server(no_arguments).build()
    definition.parse({})
    with pytest.raises(ToolError):
        definition.parse({"anything": 1})


def test_arguments_are_parsed_by_either_spelling_and_frozen() -> None:
    by_alias, by_name = built().parse({"name": "x", "pageSize": 5}), built().parse({"name": "x", "page_size": 5})
    assert by_alias == by_name == Given(name="x", page_size=5)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="frozen"):
        by_alias.name = "y"


def test_every_violation_is_told_with_its_json_pointer() -> None:
    with pytest.raises(ToolError) as caught:
        built().parse({"name": "", "pageSize": 200, "inner": {"depth": 0, "a/b~c": 1}})
    envelope = caught.value.envelope
    assert (envelope.tool, envelope.category, envelope.retryable) == ("look-up", "validation", False)
    assert [v.path for v in envelope.violations or ()] == ["/inner/a~1b~0c", "/name", "/pageSize", "/inner/depth"]


@pytest.mark.parametrize("mode", list(MODES))
def test_the_definitions_of_a_mode_are_the_same_bytes_every_time(mode: str) -> None:
    def shown() -> str:
        return json.dumps([[t.name, t.description, t.input_schema, t.output_schema, t.meta] for t in tools_of(mode)])

    assert shown() == shown()


def test_names_and_categories_are_the_same_in_every_mode() -> None:
    def named(mode: str) -> dict[str, str]:
        return {definition.name: definition.category for definition in tools_of(mode)}

    default, openai = named("default"), named("openai")
    assert default.items() <= openai.items()
    assert {openai[name] for name in openai.keys() - default.keys()} <= {"ui"}


@pytest.mark.parametrize("definition", COMMON, ids=lambda definition: definition.name)
def test_common_tools_differ_between_modes_in_their_meta_only(definition: Tool) -> None:
    for mode in (name for name, mode in MODES.items() if mode.shares is None):
        offered = next(each for each in tools_of(mode) if each.name == definition.name)
        assert dataclasses.replace(offered, meta_json=definition.meta_json) == definition


def test_an_actors_own_tool_takes_the_actors_schema() -> None:
    schema: dict[str, Any] = {"title": "x", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
    definition = actor_tool_of("default", "outlast/sleeper", title="Sleeper", description="x" * 5_000, schema=schema)
    assert definition.name == "outlast--sleeper"
    assert definition.input_schema == {"type": "object", "properties": schema["properties"], "required": ["seconds"]}
    assert (definition.actor, definition.calls_actor) == ("outlast/sleeper", True)
    assert len(definition.description) < 1_200
