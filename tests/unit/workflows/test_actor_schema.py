"""How an Actor's input schema becomes the arguments of its direct tool."""

import json
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME, actor_tool_name
from outlast.workflows.tools.core.actor_schema import MAX_FIELD_DESCRIPTION_CHARS, cut, model_input_schema
from outlast.workflows.tools.framework.sealed_parts import secret_fields

SHIPPED = Path(__file__).parents[3] / "deploy" / "local" / "actors"
FORM_KEYWORDS = {
    "editor", "prefill", "sectionCaption", "sectionDescription", "enumTitles", "unit", "isSecret", "nullable",
    "schemaVersion", "title", "groupCaption", "placeholderKey", "resourceType",
}  # fmt: skip

RAG_WEB_BROWSER: dict[str, Any] = {
    "title": "RAG Web Browser",
    "type": "object",
    "schemaVersion": 1,
    "properties": {
        "query": {
            "title": "Search term or URL",
            "type": "string",
            "description": "Enter Google Search keywords or the URL of a web page.<br/>See <a href='x'>docs</a>.",
            "prefill": "web browser for RAG pipelines -site:reddit.com",
            "editor": "textfield",
            "pattern": "[^\\s]+",
        },
        "maxResults": {
            "title": "Maximum results",
            "type": "integer",
            "description": "The maximum number of top organic Google Search results.",
            "default": 3,
            "minimum": 1,
            "maximum": 100,
            "unit": "results",
        },
        "outputFormats": {
            "title": "Output formats",
            "type": "array",
            "description": "Select one or more formats.",
            "editor": "select",
            "default": ["markdown"],
            "items": {
                "type": "string",
                "enum": ["text", "markdown", "html"],
                "enumTitles": ["Plain text", "Markdown", "HTML"],
            },
        },
        "scrapingTool": {
            "sectionCaption": "Scraping",
            "title": "Select a scraping tool",
            "type": "string",
            "description": "Select a scraping tool.",
            "editor": "select",
            "default": "raw-http",
            "enum": ["browser-playwright", "raw-http"],
            "enumTitles": ["Browser (uses Playwright)", "Raw HTTP"],
        },
        "proxyConfiguration": {
            "title": "Proxy configuration",
            "type": "object",
            "description": "Apify Proxy configuration.",
            "default": {"useApifyProxy": True},
            "editor": "proxy",
        },
        "htmlTransformer": {"title": "HTML transformer", "type": "string", "description": "…", "editor": "hidden"},
        "apiKey": {"title": "Key", "type": "string", "description": "A key.", "editor": "textfield", "isSecret": True},
        "cookies": {"title": "Cookies", "type": "array", "description": "Cookies.", "editor": "json", "prefill": []},
        "startUrls": {"title": "URLs", "type": "array", "description": "Pages.", "editor": "requestListSources"},
        "anything": {"title": "Any", "type": "any", "description": "Any JSON.", "editor": "json"},
        "mixed": {"title": "Mixed", "type": ["object", "array"], "description": "Either.", "editor": "json"},
        "maybe": {"title": "Maybe", "type": "integer", "description": "Or null.", "nullable": True, "editor": "number"},
    },
    "required": ["query", "gone"],
}


def shipped_schemas() -> list[Path]:
    return sorted(SHIPPED.glob("*/.actor/input_schema.json"))


def keywords_in(schema: object) -> set[str]:
    """Keywords of a schema and of all schemas in it; names of fields are not keywords."""
    if isinstance(schema, list):
        return set().union(*map(keywords_in, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for keyword, value in schema.items():
        if keyword == "properties":
            found |= set().union(*map(keywords_in, value.values()))
        elif keyword in {"items", "anyOf", "additionalProperties"}:
            found |= keywords_in(value)
    return found


def shape(schema: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", model_input_schema(schema))


def field(**schema: Any) -> dict[str, Any]:
    return shape({"type": "object", "properties": {"it": schema}})["properties"]["it"]


@pytest.mark.parametrize("path", shipped_schemas(), ids=lambda path: path.parents[1].name)
def test_shipped_actors_give_plain_json_schema(path: Path) -> None:
    original = json.loads(path.read_text())
    shaped = shape(original)
    jsonschema.Draft202012Validator.check_schema(shaped)
    assert set(shaped["properties"]) == set(original["properties"])
    assert not keywords_in(shaped) & FORM_KEYWORDS
    filled = {name: part["prefill"] for name, part in original["properties"].items() if "prefill" in part}
    jsonschema.validate(filled, shaped)


def test_a_realistic_schema_keeps_what_models_need() -> None:
    shaped = shape(RAG_WEB_BROWSER)
    jsonschema.Draft202012Validator.check_schema(shaped)
    assert not keywords_in(shaped) & FORM_KEYWORDS
    fields = shaped["properties"]
    assert shaped["required"] == ["query"], "a required field that does not exist would make every call invalid"
    assert fields["query"]["examples"] == ["web browser for RAG pipelines -site:reddit.com"]
    assert "<" not in fields["query"]["description"]
    assert fields["maxResults"] == {
        "description": "The maximum number of top organic Google Search results. Unit: results.",
        "type": "integer",
        "default": 3,
        "minimum": 1,
        "maximum": 100,
    }
    assert fields["outputFormats"]["items"]["enum"] == ["text", "markdown", "html"]
    assert "`browser-playwright`: Browser (uses Playwright)" in fields["scrapingTool"]["description"]
    assert "useApifyProxy" in fields["proxyConfiguration"]["properties"]
    assert fields["startUrls"]["items"]["properties"].keys() == {"url"}
    assert "type" not in fields["anything"]
    assert fields["mixed"]["type"] == ["object", "array"]
    assert fields["maybe"]["type"] == ["integer", "null"]


def test_a_secret_field_stays_known_as_secret() -> None:
    assert secret_fields(model_input_schema(RAG_WEB_BROWSER)) == secret_fields(RAG_WEB_BROWSER) == {"apiKey"}


def test_the_schema_it_came_from_is_left_as_it_was() -> None:
    before = json.dumps(RAG_WEB_BROWSER)
    model_input_schema(RAG_WEB_BROWSER)
    assert json.dumps(RAG_WEB_BROWSER) == before


def test_long_descriptions_are_cut_but_notes_stay() -> None:
    shaped = field(type="integer", description="word " * 500, unit="pages")
    assert len(shaped["description"]) <= MAX_FIELD_DESCRIPTION_CHARS
    assert shaped["description"].endswith("… Unit: pages.")
    assert cut("abc", 2) == "a…"


def test_a_list_of_thousands_of_choices_becomes_examples() -> None:
    shaped = field(type="string", description="Country.", enum=[f"country-{number}" for number in range(5_000)])
    assert "enum" not in shaped
    assert shaped["examples"] == ["country-0", "country-1", "country-2"]
    assert shaped["description"] == "Country. One of 5000 values."


def test_nested_objects_are_shaped_too() -> None:
    shaped = field(
        type="object",
        title="Login",
        editor="schemaBased",
        properties={
            "user": {"type": "string", "title": "User", "editor": "textfield", "prefill": "me"},
            "nullable": {"type": "boolean", "title": "A field called nullable"},
        },
        required=["user"],
        additionalProperties=False,
    )
    assert shaped["properties"]["user"] == {"description": "User", "type": "string", "examples": ["me"]}
    assert shaped["properties"]["nullable"]["type"] == "boolean"
    assert (shaped["required"], shaped["additionalProperties"]) == (["user"], False)


def test_a_pattern_that_only_javascript_knows_is_dropped() -> None:
    assert "pattern" not in field(type="string", pattern="(?<year>\\d+)")
    assert field(type="string", pattern="^a+$")["pattern"] == "^a+$"


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": {"a": 3}, "required": "a"}])
def test_a_broken_schema_takes_any_object(schema: dict[str, Any]) -> None:
    assert model_input_schema(schema) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        ("apify/rag-web-browser", "apify--rag-web-browser"),
        ("jan.novak/my-actor", "jan-dot-novak--my-actor"),
    ],
)
def test_tool_names_follow_the_actors_name(actor: str, name: str) -> None:
    assert actor_tool_name(actor) == name


def test_long_actor_names_give_different_tool_names_of_64_characters() -> None:
    names = {actor_tool_name(f"a-user-with-a-long-name/{'x' * 60}-{number}") for number in range(20)}
    assert len(names) == 20
    assert all(len(name) == MAX_TOOL_NAME for name in names)


@pytest.mark.parametrize(
    ("date_type", "told"),
    [
        (None, "A date as YYYY-MM-DD."),
        ("absolute", "A date as YYYY-MM-DD."),
        ("relative", "a number and a unit: `3 days`"),
        ("absoluteOrRelative", "A date as YYYY-MM-DD, or a time span"),
    ],
)
def test_a_date_is_described_as_its_picker_takes_it(date_type: str | None, told: str) -> None:
    field: dict[str, Any] = {"type": "string", "editor": "datepicker", "description": "Since when."}
    field |= {"dateType": date_type} if date_type else {}
    shaped: Any = model_input_schema({"properties": {"since": field}})
    assert told in shaped["properties"]["since"]["description"]
    assert ("YYYY" in shaped["properties"]["since"]["description"]) is (date_type != "relative")


@pytest.mark.parametrize(
    ("date_type", "pattern", "is_refused"),
    [
        ("absolute", r"^\d{4}-\d\d-\d\d$", False),
        ("absolute", r"^\d{4}-\d\d-\d\d(T\d\d:\d\d)?Z?$", False),
        ("absolute", r"^\d{4}-\d\d-\d\dT\d\d:\d\d$", True),
        ("absolute", r"^\d\d\.\d\d\.\d{4}$", True),
        (None, r"^\d{4}/\d\d/\d\d$", True),
        ("relative", r"^(\d+)\s*(day|week|month|year)s?$", False),
        ("relative", r"^(\d+)\s*(minute|hour)s?$", True),
        ("relative", r"^\d+d$", True),
        ("absoluteOrRelative", r"^(\d{4}-\d\d-\d\d|\d+ (day|week)s?)$", False),
        ("absoluteOrRelative", r"^\d+ days$", True),
        (["relative"], r"^\d{4}-\d\d-\d\d$", False),
    ],
)
def test_a_date_is_not_described_in_a_form_that_its_own_pattern_refuses(
    date_type: object, pattern: str, is_refused: bool
) -> None:
    shaped = field(type="string", editor="datepicker", description="When.", dateType=date_type, pattern=pattern)
    assert shaped["pattern"] == pattern
    assert (pattern in shaped["description"]) is is_refused
    assert any(form in shaped["description"] for form in ("YYYY-MM-DD", "3 days")) is not is_refused
