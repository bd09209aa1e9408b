"""Pure parts of the MCP front door."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import JsonValue, ValidationError

from outlast.activities.contracts import Caller
from outlast.activities.secrets import SecretSealer
from outlast.api.catalog.mcp_results import call_result
from outlast.api.errors import BadRequest
from outlast.api.http.request_body import JsonLimits
from outlast.api.mcp.client_questions import parsed_answers
from outlast.api.mcp.connections import selection_from
from outlast.api.mcp.protocol.request_meta import RequestStates
from outlast.api.mcp.protocol.task_shapes import legacy_task, modern_task
from outlast.api.mcp.resource_definitions import Resource
from outlast.api.mcp.stdio import CheckedMessages, Item
from outlast.api.tasks.arguments import DEFAULT_WAIT_SECONDS, split_wait, waits
from outlast.api.temporal.task_view import QUEUED_MESSAGE
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus, TextContent, ToolResult
from outlast.workflows.tools import extensions
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import actor_tool_of, tools_of

ANN, BOB = Caller(id="ann"), Caller(id="bob")


def actor_tool(**properties: JsonValue) -> Tool:
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    return actor_tool_of("default", "user/actor", title="Actor", description="An Actor.", schema=schema)


def test_an_actor_keeps_its_own_field_called_wait_secs() -> None:
    definition = actor_tool(waitSecs={"type": "integer"})
    assert not waits(definition, "default")
    kept, seconds = split_wait(definition, "default", {"waitSecs": 7}, {"outlast/wait-secs": 3}, 300)
    assert (kept, seconds) == ({"waitSecs": 7}, 3.0)


def test_waiting_is_taken_out_of_the_arguments() -> None:
    assert split_wait(actor_tool(), "default", {"a": 1, "waitSecs": 0}, {}, 300) == ({"a": 1}, 0.0)
    assert split_wait(actor_tool(), "default", {"a": 1}, {}, 300) == ({"a": 1}, DEFAULT_WAIT_SECONDS)


@pytest.mark.parametrize("given", [-1, 301, True, "long"])
def test_a_wait_that_makes_no_sense_is_refused(given: Any) -> None:
    with pytest.raises(BadRequest, match="from 0 to 300"):
        split_wait(actor_tool(), "default", {"waitSecs": given}, {}, 300)


def test_a_request_state_is_its_callers_and_its_tools() -> None:
    states = RequestStates(SecretSealer.ephemeral())
    state = states.state_of(ANN, "task-1", "ask")
    assert states.task_in(ANN, state, "ask") == "task-1"
    assert state != states.state_of(ANN, "task-1", "ask")
    for caller, text, tool in (
        (BOB, state, "ask"),
        (ANN, state, "other"),
        (ANN, state + "A", "ask"),
        (ANN, "é", "ask"),
    ):
        with pytest.raises(MCPError, match="requestState"):
            states.task_in(caller, text, tool)


def test_answers_to_what_is_not_asked_are_ignored_and_others_must_fit_their_method() -> None:
    asked = {"form": InputRequest(message="?"), "model": InputRequest.completion("?", max_tokens=5)}
    completion = {"role": "assistant", "content": {"type": "text", "text": "!"}}
    found = parsed_answers({"form": {"action": "decline"}, "model": completion, "else": 1}, asked)
    assert (found["form"].action, found["model"].content) == ("decline", completion)
    with pytest.raises(MCPError, match="ElicitResult"):
        parsed_answers({"form": {"answer": 1}}, asked)


def test_ui_keys_leave_the_server_in_the_ui_mode_only() -> None:
    result = ToolResult(content=(TextContent(text="."),), meta={"openai/outputTemplate": "ui://x", "own": 1})
    assert call_result(result, mode="default")["_meta"] == {"own": 1}
    assert call_result(result, mode="openai")["_meta"] == {"openai/outputTemplate": "ui://x", "own": 1}


def test_a_query_becomes_a_selection() -> None:
    given = {"ui": ["true"], "tools": ["docs, user/actor"], "payment": ["skyfire"]}
    chosen = selection_from(given, default_mode="default")
    assert (chosen.mode, chosen.selectors) == ("openai", ("docs", "user/actor"))
    assert chosen.payment is not None
    with pytest.raises(BadRequest, match="default, openai"):
        selection_from({"ui": ["nonsense"]}, default_mode="default")


def test_a_resource_with_parts_is_a_template() -> None:
    template = Resource("test://t/{id}/d.x", "t", "T", "T.", "text/plain", lambda parts: parts["id"])
    assert template.is_template
    assert template.match("test://t/12/d.x") == {"id": "12"}
    assert template.match("test://t/12/dyx") is None


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Modules that can be imported by name, and a registry of extensions that forgets them."""
    made: dict[str, ModuleType] = {}
    monkeypatch.setattr(extensions, "_LOADED", {})

    def imported(name: str) -> ModuleType:
        if name not in made:
            raise ImportError(f"No module named {name!r}")
        return made[name]

    monkeypatch.setattr(extensions.importlib, "import_module", imported)
    return made


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (None, "No module named"),
        ({}, "has no tools"),
        ({"TOOLS": [1]}, "TOOLS contains int"),
        ({"TOOLS": "own"}, "already"),
    ],
)
def test_an_extension_that_cannot_be_used_says_why(
    modules: dict[str, ModuleType], attributes: dict[str, Any] | None, reason: str
) -> None:
    if attributes is not None:
        tools = tools_of("default")[:1] if attributes.get("TOOLS") == "own" else attributes.get("TOOLS")
        modules["other"] = ModuleType("other")
        vars(modules["other"]).update({"TOOLS": tools} if "TOOLS" in attributes else {})
    with pytest.raises(extensions.ExtensionError, match=reason):
        extensions.load_extensions(["other"])


@pytest.mark.parametrize("shape", [legacy_task, modern_task])
def test_a_queued_task_is_working_in_mcp_and_its_message_says_the_rest(shape: Callable[[Task], dict[str, Any]]) -> None:
    queued = Task(
        id="t",
        tool="call-actor",
        status=TaskStatus.QUEUED,
        status_message=QUEUED_MESSAGE,
        mode="default",
        executor="sync",
        created_at=datetime.now(UTC),
    )
    shown = shape(queued)
    assert (shown["status"], shown["statusMessage"]) == ("working", f"call-actor: {QUEUED_MESSAGE}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            r'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a\ud83d": ["caf\u0000"]}}',
            {"a\ufffd": ["caf\ufffd"]},
        ),
        (r'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": "\ud83d\ude00"}}', {"a": "😀"}),
    ],
)
async def test_a_line_of_standard_input_is_read_with_valid_text(line: str, expected: dict[str, Any]) -> None:
    """The SDK's transport gives an exception for a line with half of a character."""
    try:
        item: Item = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        item = error

    class Lines:
        async def receive(self) -> Item:
            return item

        __anext__ = receive

        async def aclose(self) -> None:
            """Nothing to close."""

    class Nowhere:
        async def send(self, item: SessionMessage, /) -> None:
            raise AssertionError(f"refused: {item}")

    async def admitted(_message: object) -> bool:
        return True

    messages = CheckedMessages(Lines(), Nowhere(), JsonLimits(max_values=100, max_depth=10), admitted)
    received = await messages.receive()
    assert isinstance(received, SessionMessage)
    assert isinstance(received.message, JSONRPCRequest)
    assert received.message.params == expected
