"""What becomes of each call of a model, and what the model reads."""

import json
from datetime import UTC, datetime

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.conversations.contracts import TextPart, ToolCallPart
from outlast.activities.llm.contracts import ModelStep
from outlast.activities.webhooks.contracts import WebhookEventType, WebhookListener
from outlast.workflows.contracts.sessions import (
    MAX_PARALLEL_CALLS,
    Budgets,
    ToolSnapshot,
    TurnInput,
    TurnState,
    TurnTool,
)
from outlast.workflows.contracts.tool_calls import ImageContent, ServerTarget, TextContent, ToolResult
from outlast.workflows.turns.steps import active_tools, assistant_message, model_call, planned, result_part

SCHEMA = json.dumps({"type": "object", "properties": {"na me": {"type": "string"}}, "required": ["na me"]})
TOOLS = (
    TurnTool(shown="greet", name="greet", input_schema_json=SCHEMA, fields={"na-me": "na me"}),
    TurnTool(shown="odd-1", name="odd name", input_schema_json="{}"),
)
STATE = TurnState(began=datetime(2026, 1, 1, tzinfo=UTC), step=1)


def always() -> bool:
    return True


def order(**changes: object) -> TurnInput:
    made = TurnInput(
        caller=Caller(id="local"),
        session_id="s",
        turn_id="t",
        message_id="m",
        parts=(TextPart(text="Hello"),),
        provider_id="generic",
        model_id="m",
        snapshot=ToolSnapshot(definitions_json="[]", tools=TOOLS),
    )
    return made.model_copy(update=changes)


def part(name: str, arguments: object, call_id: str = "c1") -> ToolCallPart:
    given = {"id": call_id, "name": name, "arguments": arguments, "raw_arguments": json.dumps(arguments)}
    return ToolCallPart.model_validate(given)


def plan(made: TurnInput, *parts: ToolCallPart, step: int = 1) -> list[tuple[str, ErrorCategory | None]]:
    calls = planned(
        made, STATE, active_tools(made, step), ModelStep(finish_reason="tool_calls", parts=parts), coerces=always
    )
    return [(call.name, call.refusal.error.category if call.refusal and call.refusal.error else None) for call in calls]


def test_a_call_gets_the_tools_own_names_and_a_lasting_id() -> None:
    said = ModelStep(finish_reason="tool_calls", parts=(part("greet", {"na-me": "Ann"}), part("odd-1", {})))
    first, second = planned(order(), STATE, active_tools(order(), 1), said, coerces=always)
    again = planned(order(), STATE, active_tools(order(), 1), said, coerces=always)
    assert first.call is not None
    assert (first.call.arguments, first.call.tool_call_id, second.name) == ({"na me": "Ann"}, "c1", "odd name")
    assert [call.task_id for call in again] == [first.task_id, second.task_id]
    assert first.task_id != second.task_id


def test_the_calls_of_a_turn_are_heard_by_the_webhooks_that_listened_when_it_began() -> None:
    listener = WebhookListener(id="webhook-1", events=(WebhookEventType.TASK_COMPLETED,))
    made = order(listeners=(listener,))
    said = ModelStep(finish_reason="tool_calls", parts=(part("greet", {"na-me": "Ann"}),))
    (planned_call,) = planned(made, STATE, active_tools(made, 1), said, coerces=always)
    assert planned_call.call is not None
    assert planned_call.call.listeners == (listener,)


def test_a_call_of_an_mcp_server_has_the_rules_of_its_tool() -> None:
    target = ServerTarget(server="git", tool="git_commit", needs_approval=True)
    tool = TurnTool(shown="git__git_commit", name="git__git_commit", server=target, input_schema_json="{}")
    made = order(snapshot=ToolSnapshot(definitions_json="[]", tools=(tool,)))
    said = ModelStep(finish_reason="tool_calls", parts=(part("git__git_commit", {}), part("git__git_commit", {}, "c2")))
    calls = [one.call for one in planned(made, STATE, active_tools(made, 1), said, coerces=always)]
    servers = [call.server for call in calls if call is not None and call.server is not None]
    assert [(one.server, one.tool, one.session) for one in servers] == [("git", "git_commit", "conversation")] * 2
    assert len({one.session_key for one in servers}) == 1
    assert [call.permission.action for call in calls if call is not None and call.permission] == ["ask", "ask"]


def test_what_cannot_be_carried_out_is_refused_one_by_one() -> None:
    masked = order(tool_mask={"greet": True})
    calls = (
        part("greet", {"na-me": "Ann"}),
        part("greet", {}),
        part("greet", None),
        part("odd-1", {}),
        part("none", {}),
    )
    assert plan(masked, *calls) == [
        ("greet", None),
        ("greet", ErrorCategory.VALIDATION),
        ("greet", ErrorCategory.VALIDATION),
        ("odd name", ErrorCategory.PERMISSION),
        ("none", ErrorCategory.NOT_FOUND),
    ]


def test_too_many_calls_at_once_are_refused() -> None:
    calls = [part("odd-1", {}, f"c{number}") for number in range(MAX_PARALLEL_CALLS + 2)]
    refused = [category for _, category in plan(order(), *calls) if category is not None]
    assert len(refused) == 2


def test_nothing_is_active_in_the_last_step() -> None:
    assert active_tools(order(max_steps=3), 3).active == ()
    assert active_tools(order(budgets=Budgets(steps=2)), 2).active == ()
    assert model_call(order(), STATE, active_tools(order(), 1)).active_tools is None
    assert model_call(order(max_steps=1), STATE, active_tools(order(max_steps=1), 1)).active_tools == ()


def test_a_share_of_the_money_is_each_calls_budget() -> None:
    made = order(budgets=Budgets(usd=1.0))
    said = ModelStep(finish_reason="tool_calls", parts=(part("odd-1", {}), part("odd-1", {}, "c2")))
    first, _ = planned(made, STATE, active_tools(made, 1), said, coerces=always)
    assert first.call is not None
    assert float(first.call.options.budget.max_total_charge_usd or 0) == 0.5


def test_a_model_reads_errors_as_envelopes_and_never_nothing() -> None:
    (call,) = planned(
        order(),
        STATE,
        active_tools(order(), 1),
        ModelStep(finish_reason="tool_calls", parts=(part("odd-1", {}),)),
        coerces=always,
    )
    error = ErrorEnvelope(tool="odd name", message="No.", category=ErrorCategory.NETWORK, retryable=True)
    failed = result_part(call, ToolResult.failed(error), "Remember.")
    said, facts = failed.text.partition("\n\n")[0].split("\n")
    assert (said, json.loads(facts)["error"]["category"]) == ("No.", "network")
    assert failed.text.endswith("Remember.")
    assert result_part(call, ToolResult()).text == "(no output)"
    picture = result_part(call, ToolResult(content=(ImageContent(data="AAAA", mimeType="image/png"),)))
    assert (picture.text, [media.media_type for media in picture.media]) == ("", ["image/png"])
    assert result_part(call, ToolResult(content=(TextContent(text="Yes."),))).text == "Yes."
    assert result_part(call, ToolResult(structured={"a": 1})).text == '{"a":1}'


def test_a_model_that_says_nothing_leaves_no_message() -> None:
    assert assistant_message(ModelStep(finish_reason="stop")) is None


def test_arguments_are_read_as_the_schema_has_them_except_in_turns_that_refused_them() -> None:
    schema = json.dumps({"type": "object", "properties": {"na me": {"type": "array"}}})
    made = order(
        snapshot=ToolSnapshot(definitions_json="[]", tools=(TOOLS[0].model_copy(update={"input_schema_json": schema}),))
    )
    said = ModelStep(finish_reason="tool_calls", parts=(part("greet", {"na-me": "[1]"}),))
    (read,) = planned(made, STATE, active_tools(made, 1), said, coerces=always)
    assert read.call is not None
    assert (read.call.arguments, read.call.changes) == (
        {"na me": [1]},
        ("/na me: a string with JSON was read as a list",),
    )
    (refused,) = planned(made, STATE, active_tools(made, 1), said, coerces=lambda: False)
    assert refused.refusal is not None
    assert refused.refusal.error is not None
    violations = refused.refusal.error.violations or ()
    assert [one.message.endswith("; you sent a string") for one in violations] == [True]


def test_whether_arguments_are_read_so_is_asked_only_if_any_has_to_be() -> None:
    def never() -> bool:
        raise AssertionError("a marker in the history of every turn")

    said = ModelStep(finish_reason="tool_calls", parts=(part("greet", {"na-me": "Ann"}),))
    assert planned(order(), STATE, active_tools(order(), 1), said, coerces=never)[0].call is not None
