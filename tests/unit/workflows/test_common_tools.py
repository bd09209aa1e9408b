"""What all common tools promise, whatever the mode."""

import json
from typing import Any

import jsonschema
import pytest

from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import COMMON, MODES, tools_of

READERS = [definition for definition in COMMON if definition.annotations.read_only and not definition.in_front]
BY_CATEGORY = {
    Category.RUNS: {"get-actor-run-list", "get-actor-log", "abort-actor-run"},
    Category.STORAGE: {
        "get-actor-output",
        "get-dataset",
        "get-dataset-items",
        "get-dataset-list",
        "get-dataset-schema",
        "get-key-value-store",
        "get-key-value-store-keys",
        "get-key-value-store-list",
        "get-key-value-store-record",
    },
    Category.DOCS: {"search-apify-docs", "fetch-apify-docs"},
    Category.DEV: {"get-html-skeleton"},
}


@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if mode.shares is None])
def test_every_mode_that_shares_them_has_the_common_tools_in_the_same_categories(mode: str) -> None:
    offered = {definition.name: definition.category for definition in tools_of(mode)}
    for category, names in BY_CATEGORY.items():
        assert {offered.get(name) for name in names} == {category}


@pytest.mark.parametrize("definition", READERS, ids=lambda definition: definition.name)
def test_a_reader_says_what_it_takes_and_gives(definition: Tool) -> None:
    assert definition.annotations.title
    assert definition.annotations.idempotent
    assert not definition.annotations.destructive
    schemas: list[Any] = [definition.input_schema, definition.output_schema]
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)
    assert schemas[0]["additionalProperties"] is False
    for name, argument in schemas[0]["properties"].items():
        assert argument.get("description"), f"{name} is not described"


@pytest.mark.parametrize("definition", READERS, ids=lambda definition: definition.name)
def test_a_description_names_no_other_tool(definition: Tool) -> None:
    """Which other tools a connection offers is only known when the tool is called."""
    text = json.dumps([definition.description, definition.input_schema])
    others = {other.name for other in COMMON} - {definition.name}
    assert [name for name in others if f"{name} " in text or f"{name}." in text] == []
