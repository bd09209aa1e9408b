"""Adapters without a server: names, schemas, and what each provider's messages say."""

import json
import re
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp_types import CallToolResult
from pydantic import Field, JsonValue, TypeAdapter

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.adapters import BACK_ENDS
from outlast.api.adapters.adapter import CallScope
from outlast.api.adapters.message_formats import ModelCall, Outcome, pieces_of, read_call
from outlast.api.catalog.portable_schemas import FIELD_NAME, TOOL_NAME, fitting_names, portable, repaired
from outlast.api.errors import BadRequest
from outlast.api.mcp.tool_lists import tool_entries
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.framework.tool import Arguments, Category, NoArguments, Tool, tool
from outlast.workflows.tools.registry import ToolSet, actor_tool_of, tools_of

TOOLS = {f"{mode}:{definition.name}": definition for mode in ("default", "openai") for definition in tools_of(mode)}
OFFERED: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(anthropic.types.ToolParam),
    "openai-responses": TypeAdapter(openai.types.responses.FunctionToolParam),
    "openai-chat": TypeAdapter(openai.types.chat.ChatCompletionFunctionToolParam),
}


class Inner(Arguments):
    depth: int = 3
    label: str | None = None


class Rich(Arguments):
    """Optional fields, defaults and a model within a model."""

    query: str = Field(description="What to look for.")
    limit: int = Field(default=20, ge=1, alias="maxItems")
    tags: tuple[str, ...] = ("a", "b")
    note: str | None = None
    inner: Inner = Inner()


async def nothing(_ctx: Any, _arguments: Any) -> ToolResult:
    return ToolResult()


def offered(back_end: str, definition: Tool) -> dict[str, Any]:
    """The entry of a provider's list of tools, checked with its library, flat."""
    entry: Any = BACK_ENDS[back_end].tool(portable(definition, definition.name))
    if back_end in OFFERED:
        assert OFFERED[back_end].validate_python(entry) == entry
    return {**entry, **entry.get("function", {})}


def schema_of(entry: dict[str, Any]) -> dict[str, Any]:
    return next(entry[key] for key in ("input_schema", "parameters", "inputSchema") if key in entry)


@given(st.lists(st.text(max_size=90), max_size=20))
def test_every_name_fits_and_leads_back(names: list[str]) -> None:
    for pattern in (TOOL_NAME, FIELD_NAME):
        fitting = fitting_names(names, pattern)
        assert list(fitting.values()) == list(dict.fromkeys(names))
        assert all(pattern.fullmatch(alias) for alias in fitting)
        assert all(alias == name for alias, name in fitting.items() if pattern.fullmatch(name))


def test_a_name_made_for_one_tool_is_never_that_of_another() -> None:
    (alias,) = fitting_names(["a.b"])
    assert fitting_names(["a.b", alias])[alias] == alias
    assert set(fitting_names([alias, "a.b"]).values()) == {alias, "a.b"}
    assert fitting_names(["a.b", "a/b", "a b"]).keys() == fitting_names(["a b", "a/b", "a.b"]).keys()


@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("name", TOOLS)
def test_the_schema_of_every_tool_is_the_same_in_every_form(back_end: str, name: str) -> None:
    definition = TOOLS[name]
    entry = offered(back_end, definition)
    assert schema_of(entry) == definition.input_schema
    assert entry["description"] == definition.description
    assert entry["name"] == definition.name
    assert entry.get("strict", False) is False


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_optional_fields_and_defaults_survive(back_end: str) -> None:
    definition = tool("rich").category(Category.DEV).describe("Rich.").args(Rich).server(nothing).build()
    schema = schema_of(offered(back_end, definition))
    assert schema == Rich.model_json_schema(by_alias=True)
    assert schema["required"] == ["query"]
    defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
    assert defaults == {"maxItems": 20, "tags": ["a", "b"], "note": None, "inner": {"depth": 3, "label": None}}
    assert schema["properties"]["note"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    given_back = definition.parse({"query": "x", "inner": {"label": "y"}})
    assert given_back == Rich(query="x", inner=Inner(label="y"))
    Draft202012Validator.check_schema(schema)


def test_a_tool_without_arguments_and_one_without_properties_are_objects() -> None:
    definition = tool("none").category(Category.DEV).describe("None.").args(NoArguments).server(nothing).build()
    any_object = actor_tool_of("default", "user/actor", title="A", description="A.", schema={"type": "object"})
    for shown in (portable(definition, "none"), portable(any_object, "any")):
        assert shown.schema["type"] == "object"
        assert shown.schema["properties"] == {}


def test_fields_that_no_provider_takes_have_names_of_their_own() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"$top": {"type": "integer", "default": 3}, "plain": {"type": "string"}, "x" * 70: {}},
        "required": ["$top", "plain"],
        "oneOf": [{"required": ["$top"]}],
    }
    definition = tool("odd").category(Category.DEV).describe("Odd.").args_schema(schema).server(nothing).build()
    shown = portable(definition, "odd")
    properties: Any = shown.schema["properties"]
    assert all(FIELD_NAME.fullmatch(name) for name in properties)
    assert list(properties.values()) == [{"type": "integer", "default": 3}, {"type": "string"}, {}]
    said: dict[str, JsonValue] = dict(zip(properties, (1, "two", 3), strict=True))
    assert shown.own_arguments(said) == {"$top": 1, "plain": "two", "x" * 70: 3}
    assert "oneOf" not in shown.schema
    assert '{"oneOf": [{"required": ["$top"]}]}' in shown.description
    assert definition.input_schema == schema


class Node(Arguments):
    """Contains itself: pydantic writes a schema with `$ref` at its top."""

    name: str
    children: tuple["Node", ...] = ()


def of_schema(schema: dict[str, Any]) -> Tool:
    return tool("odd").category(Category.DEV).describe("Odd.").args_schema(schema).server(nothing).build()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"], "properties": None}, {"type": "object", "properties": {}}),
        (
            {"properties": {"a": {}}, "required": None, "$defs": {"x": {"enum": [1]}}},
            {"type": "object", "properties": {"a": {}}, "$defs": {"x": {"enum": [1]}}},
        ),
        ({"$ref": "#"}, {"type": "object", "properties": {}, "$ref": "#"}),
        ({"$ref": "https://example.com/x"}, {"type": "object", "properties": {}, "$ref": "https://example.com/x"}),
    ],
)
def test_the_top_of_a_schema_is_an_object(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = repaired(of_schema(schema))
    assert shown is not None
    assert shown.schema == expected


def test_a_schema_that_refers_to_itself_at_its_top_is_followed() -> None:
    shown = repaired(tool("node").category(Category.DEV).describe("N.").args(Node).server(nothing).build())
    assert shown is not None
    properties: Any = shown.schema["properties"]
    assert ("$ref" in shown.schema, list(properties)) == (False, ["name", "children"])
    Draft202012Validator(shown.schema).validate({"name": "a", "children": [{"name": "b"}]})


def test_fields_that_only_alternatives_have_are_shown() -> None:
    by_id: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}, "kind": {"const": "id"}}}
    by_url: dict[str, Any] = {"type": "object", "properties": {"the url": {"type": "string"}, "kind": {"const": "url"}}}
    schema: dict[str, Any] = {"$defs": {"ById": by_id}, "anyOf": [{"$ref": "#/$defs/ById"}, by_url]}
    shown = portable(of_schema(schema), "odd")
    assert ("anyOf" in shown.schema, "anyOf" in shown.description) == (False, True)
    properties: Any = shown.schema["properties"]
    assert properties["id"] == {"type": "integer"}
    assert properties["kind"] == {"anyOf": [{"const": "id"}, {"const": "url"}]}
    (url,) = set(properties) - {"id", "kind"}
    assert shown.own_arguments({url: "u"}) == {"the url": "u"}


@pytest.mark.parametrize("legacy", [True, False])
def test_only_clients_that_know_the_dialect_that_a_schema_declares_get_its_rules_in_place(legacy: bool) -> None:
    rules: dict[str, Any] = {"allOf": [{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]}
    plain: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}, **rules}
    declared = {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain}
    renamed = {**declared, "properties": {"a b": {}}}
    older = {**plain, "$schema": "http://json-schema.org/draft-07/schema#"}
    schemas = (plain, declared, renamed, older)
    tools = ToolSet("default", {str(number): of_schema(one) for number, one in enumerate(schemas)})
    entries = tool_entries(tools, legacy=legacy, max_wait_seconds=50)
    assert ["allOf" in entry["inputSchema"] for entry in entries] == [False, not legacy, False, False]


def test_a_claude_message_calls_only_by_its_tool_use_blocks() -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "toolu_2", "name": "b", "input": {}},
    ]
    back_end = BACK_ENDS["anthropic"]
    calls = (ModelCall("toolu_1", "a", {"x": 1}), ModelCall("toolu_2", "b", {}))
    assert back_end.calls(content) == calls
    assert back_end.calls({"role": "assistant", "content": content}) == calls
    assert back_end.calls([anthropic.types.ToolUseBlock(**content[2]), content[4]]) == calls
    assert back_end.calls({"role": "assistant", "content": "Just text."}) == ()


def test_a_response_calls_only_by_its_function_call_items() -> None:
    output: list[Any] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "call_1", "id": "fc_1", "name": "a", "arguments": '{"x": 1}'},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]
    calls = (ModelCall("call_1", "a", {"x": 1}),)
    assert BACK_ENDS["openai-responses"].calls(output) == calls
    assert BACK_ENDS["openai-responses"].calls({"id": "resp_1", "output": output}) == calls


def test_a_chat_message_calls_only_functions() -> None:
    called: list[Any] = [
        {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": '{"x": 1}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "b", "input": "x"}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": called}
    back_end = BACK_ENDS["openai-chat"]
    calls = (ModelCall("call_1", "a", {"x": 1}),)
    assert back_end.calls(message) == back_end.calls(called) == back_end.calls({"choices": [{"message": message}]})
    assert back_end.calls(message) == calls
    assert back_end.calls({"role": "assistant", "content": "Just text."}) == ()
    assert back_end.calls({"role": "assistant", "content": "Just text.", "tool_calls": None}) == ()


CUT = '{"text": "Once upon a ti'
TOOL_USE: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "say", "input": {}}
CHAT_CALL: dict[str, Any] = {"id": "1", "type": "function", "function": {"name": "say", "arguments": CUT}}
FUNCTION_CALL: dict[str, Any] = {"type": "function_call", "call_id": "1", "name": "say", "arguments": CUT}


@pytest.mark.parametrize(
    ("back_end", "message", "is_cut"),
    [
        ("anthropic", {"content": [TOOL_USE], "stop_reason": "max_tokens"}, True),
        ("anthropic", {"content": [TOOL_USE], "stop_reason": "tool_use"}, False),
        ("anthropic", {"content": [{**TOOL_USE, "input": {"x": 1}}], "stop_reason": "max_tokens"}, False),
        ("openai-chat", {"choices": [{"message": {"tool_calls": [CHAT_CALL]}, "finish_reason": "length"}]}, True),
        ("openai-chat", {"choices": [{"message": {"tool_calls": [CHAT_CALL]}, "finish_reason": "stop"}]}, False),
        (
            "openai-responses",
            {"output": [FUNCTION_CALL], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            True,
        ),
        ("openai-responses", {"output": [FUNCTION_CALL], "status": "completed", "incomplete_details": None}, False),
    ],
)
def test_a_call_at_the_output_limit_is_cut_off_unless_it_is_whole(back_end: str, message: Any, is_cut: bool) -> None:
    (call,) = BACK_ENDS[back_end].calls(message)
    assert call.cut_off is is_cut


@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("said", [{"hello": 1}, [1], 7, {"content": [1], "output": [1], "tool_calls": [1]}])
def test_what_is_no_message_is_refused(back_end: str, said: Any) -> None:
    with pytest.raises(BadRequest):
        BACK_ENDS[back_end].calls(said)


@pytest.mark.parametrize(("call_id", "name"), [("", "a"), (None, "a"), ("x" * 201, "a"), ("x", ""), ("\ud800", "a")])
def test_a_call_without_an_id_or_a_name_is_refused(call_id: Any, name: Any) -> None:
    with pytest.raises(BadRequest):
        read_call(call_id, name, {})


@pytest.mark.parametrize("arguments", ["{", "[]", "null", "1", {"x": float("nan")}, {"x": object()}, []])
def test_arguments_that_are_no_json_object_have_a_flaw(arguments: Any) -> None:
    call = read_call("x", "a", arguments)
    assert call.flaw
    assert call.arguments == {}


def test_errors_are_marked_in_every_protocol() -> None:
    envelope = ErrorEnvelope(tool="a", message="It is gone.", category=ErrorCategory.NOT_FOUND, retryable=False)
    good = Outcome(ModelCall("1", "a", {}), "a", ToolResult(content=(TextContent(text="fine"),)))
    bad = Outcome(ModelCall("2", "a", {}), "a", ToolResult.failed(envelope))
    error = envelope.model_dump(mode="json", exclude_none=True)
    details = json.dumps({"is_error": True, "error": error}, separators=(",", ":"))
    (message,) = BACK_ENDS["anthropic"].append((good, bad))
    blocks: Any = message["content"]
    assert [(block["tool_use_id"], block["is_error"]) for block in blocks] == [("1", False), ("2", True)]
    assert [part["text"] for part in blocks[1]["content"]] == ["It is gone.", details]
    items: Any = BACK_ENDS["openai-responses"].append((good, bad))
    assert [(item["call_id"], item["output"]) for item in items] == [("1", "fine"), ("2", f"It is gone.\n{details}")]
    messages: Any = BACK_ENDS["openai-chat"].append((good, bad))
    assert [(said["tool_call_id"], said["content"]) for said in messages] == [
        ("1", "fine"),
        ("2", f"It is gone.\n{details}"),
    ]


def test_mcp_requests_become_responses() -> None:
    back_end = BACK_ENDS["mcp"]
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "a", "arguments": {"x": 1}}}
    (call,) = back_end.calls(request)
    assert (call.id, call.name, call.arguments) == (7, "a", {"x": 1})
    assert CallScope().idempotency_key(call) is None
    result = ToolResult(content=(TextContent(text="fine"),), structured={"y": 2})
    (response,) = back_end.append([Outcome(call, "a", result)])
    assert response["id"] == 7
    read = CallToolResult.model_validate(response["result"])
    assert (read.is_error, read.structured_content) == (False, {"y": 2})
    envelope = ErrorEnvelope(tool="a", message="No.", category=ErrorCategory.NOT_FOUND, retryable=False)
    (refused,) = back_end.append([Outcome(call, "a", ToolResult.failed(envelope), unknown_tool=True)])
    error: Any = refused["error"]
    assert (error["code"], error["data"]["category"]) == (-32602, "not_found")


@given(
    st.tuples(*[st.text(alphabet="ab-:", min_size=1, max_size=3)] * 3), st.tuples(*[st.text("ab-:/", max_size=3)] * 3)
)
def test_keys_of_different_calls_differ(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    def key(parts: tuple[str, str, str]) -> str | None:
        call_id, session, message = parts
        scope = CallScope(session.replace("/", "") or None, message.replace("/", "") or None)
        return scope.idempotency_key(ModelCall(call_id, "a", {}))

    same = [part.replace("/", "") for part in one[1:]] == [part.replace("/", "") for part in other[1:]]
    assert (key(one) == key(other)) == (same and one[0] == other[0])


def test_what_a_proxied_server_answers_is_shown_too() -> None:
    blocks: list[Any] = [
        {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a://c", "blob": "AAAA"}},
        {"type": "hologram", "data": 1},
        {"type": "text", "text": "  "},
    ]
    outcome = Outcome(ModelCall("1", "a", {}), "a", ToolResult(raw_content=tuple(blocks)))
    inside, blob, unknown = pieces_of(outcome)
    assert inside == "inside"
    assert isinstance(blob, str)
    assert re.search(r"a://c, application/octet-stream, 3 bytes", blob)
    assert unknown == '{"type":"hologram","data":1}'


def test_a_structured_answer_without_text_is_said_in_json() -> None:
    outcome = Outcome(ModelCall("1", "a", {}), "a", ToolResult(structured={"x": 1}))
    assert pieces_of(outcome) == ['{"x":1}']
