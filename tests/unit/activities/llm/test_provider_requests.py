"""What is sent to each provider, field by field; and what comes first stays byte for byte the same."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.conversations.contracts import ModelMessage, TextPart, ToolCallPart, ToolResultPart
from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.llm.providers import anthropic_messages, openai_chat, openai_responses
from outlast.activities.llm.providers.requests import Definition, canonical_definitions, read_definitions
from tests.support.providers.model_requests import DEFINITIONS, PROVIDERS, definition, order, user

SCHEMA = {"properties": {"q": {"type": "string"}}, "required": ["q"], "type": "object"}
ONE = canonical_definitions([definition("search")])
NAMES = ("fetch", "search", "write")
CONVERSATION = (
    user("Find it."),
    ModelMessage(
        role="assistant",
        parts=(
            TextPart(text="I look."),
            ToolCallPart(id="call_1", name="search", arguments={"q": "ü"}, raw_arguments='{"q": "ü"}'),
            ToolCallPart(id="call_2", name="search", arguments=None, raw_arguments='{"q'),
        ),
    ),
    ModelMessage(
        role="tool",
        parts=(
            ToolResultPart(call_id="call_1", name="search", text="found"),
            ToolResultPart(call_id="call_2", name="search", text="no JSON", is_error=True),
        ),
    ),
)
MARK = {"cache_control": {"type": "ephemeral"}}
GOLDEN: dict[str, dict[str, Any]] = {
    "openai": {
        "model": "model-1",
        "tools": [
            {"type": "function", "name": "search", "description": "Does it.", "parameters": SCHEMA, "strict": False}
        ],
        "instructions": "You are helpful.",
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "It is noon."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "Find it."}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "search", "arguments": '{"q": "ü"}'},
            {"type": "function_call", "call_id": "call_2", "name": "search", "arguments": '{"q'},
            {"type": "function_call_output", "call_id": "call_1", "output": "found"},
            {"type": "function_call_output", "call_id": "call_2", "output": "no JSON"},
        ],
        "tool_choice": "none",
        "max_output_tokens": 4_096,
        "prompt_cache_key": "1076e175c3cdaa8920472096c2514c8a",
        "store": False,
        "stream": True,
    },
    "anthropic": {
        "model": "model-1",
        "tools": [{"name": "search", "description": "Does it.", "input_schema": SCHEMA, **MARK}],
        "system": [{"type": "text", "text": "You are helpful.", **MARK}, {"type": "text", "text": "It is noon."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Find it.", **MARK}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "ü"}},
                    {"type": "tool_use", "id": "call_2", "name": "search", "input": {"unparsed": '{"q'}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": [{"type": "text", "text": "found"}],
                        "is_error": False,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_2",
                        "content": [{"type": "text", "text": "no JSON"}],
                        "is_error": True,
                        **MARK,
                    },
                ],
            },
        ],
        "tool_choice": {"type": "none"},
        "max_tokens": 4_096,
        "stream": True,
    },
    "generic": {
        "model": "model-1",
        "tools": [
            {"type": "function", "function": {"name": "search", "description": "Does it.", "parameters": SCHEMA}}
        ],
        "messages": [
            {"role": "system", "content": "You are helpful.\n\nIt is noon."},
            {"role": "user", "content": "Find it."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "search", "arguments": '{"q": "ü"}'},
                    },
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "search", "arguments": '{"unparsed":"{\\"q"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
            {"role": "tool", "tool_call_id": "call_2", "content": "no JSON"},
        ],
        "tool_choice": "none",
        "max_tokens": 4_096,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
}
GOLDEN["zai"] = {
    name: value for name, value in GOLDEN["generic"].items() if name not in {"tool_choice", "stream_options"}
}


def body_of(asked: CallModelInput) -> dict[str, Any]:
    match asked.provider_id:
        case "openai":
            return openai_responses.request_body(asked)[0]
        case "anthropic":
            return anthropic_messages.request_body(asked)[0]
        case other:
            return openai_chat.request_body(asked, other)[0]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_request_is_translated_field_by_field(name: str) -> None:
    asked = order(name, *CONVERSATION, definitions_json=ONE, active_tools=(), dynamic="It is noon.")
    assert body_of(asked) == GOLDEN[name]
    assert list(body_of(asked)) == list(GOLDEN[name]), "what changes with the mask comes last"


def test_a_set_of_tools_has_one_serialisation() -> None:
    shuffled = [DEFINITIONS[2], DEFINITIONS[0], DEFINITIONS[1]]
    assert canonical_definitions(shuffled) == canonical_definitions(DEFINITIONS)
    other = Definition("fetch", "Does it.", dict(reversed(DEFINITIONS[0].input_schema.items())))
    assert canonical_definitions([other, *DEFINITIONS[1:]]) == canonical_definitions(DEFINITIONS)
    assert read_definitions(canonical_definitions(DEFINITIONS)) == DEFINITIONS


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"name": "x"}]', "nonsense"])
def test_what_is_no_list_of_definitions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"definition|Expecting"):
        read_definitions(text)


masks = st.none() | st.lists(st.sampled_from(NAMES), unique=True).map(tuple)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
steps = st.lists(
    st.tuples(masks, texts, st.lists(st.tuples(st.sampled_from(NAMES), texts), max_size=3)), min_size=2, max_size=6
)
Steps = list[tuple[tuple[str, ...] | None, str, list[tuple[str, str]]]]


@pytest.mark.parametrize("name", PROVIDERS)
@given(conversation=steps, dynamic=texts)
def test_every_step_begins_with_the_whole_conversation_before_it(name: str, conversation: Steps, dynamic: str) -> None:
    """Byte for byte, whatever the masks are; of Anthropic's messages apart from the marks."""
    messages = [user("Begin.")]
    earlier = ""
    for number, (mask, text, calls) in enumerate(conversation):
        asked = order(name, *messages, step=number, active_tools=mask, dynamic=dynamic)
        sent = _without_marks(body_of(asked))
        assert _bytes(sent).startswith(earlier)
        earlier = _prompt(sent)
        assert _bytes(sent).startswith(earlier)
        messages += _step(number, calls, text)


@pytest.mark.parametrize("name", PROVIDERS)
def test_another_dynamic_text_leaves_all_that_stands_before_it(name: str) -> None:
    morning, noon = (_bytes(body_of(order(name, dynamic=f"It is {time}."))) for time in ("morning", "noon"))
    same = zip(morning, noon, strict=False)
    common = "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], same))
    assert common.index("fetch") < common.index("You are helpful.")
    assert "Hello" not in common


@pytest.mark.parametrize("name", PROVIDERS)
@given(one=masks, other=masks)
def test_a_mask_changes_nothing_of_the_definitions(
    name: str, one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> None:
    first, second = (body_of(order(name, active_tools=mask)) for mask in (one, other))
    assert _bytes(first["tools"]) == _bytes(second["tools"])


def _step(number: int, calls: list[tuple[str, str]], text: str) -> list[ModelMessage]:
    if not calls:
        return [ModelMessage(role="assistant", parts=(TextPart(text="So."),)), user(f"Go on {text}")]
    made = tuple(
        ToolCallPart(id=f"call_{number}_{index}", name=tool, arguments={"q": q}, raw_arguments=json.dumps({"q": q}))
        for index, (tool, q) in enumerate(calls)
    )
    answered = tuple(ToolResultPart(call_id=call.id, name=call.name, text=text) for call in made)
    return [ModelMessage(role="assistant", parts=made), ModelMessage(role="tool", parts=answered)]


def _bytes(value: Any) -> str:
    """As the libraries write it: fields in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _prompt(body: dict[str, Any]) -> str:
    """The request up to the end of its conversation."""
    key = "input" if "input" in body else "messages"
    fields = dict(list(body.items())[: list(body).index(key)])
    return _bytes({**fields, key: body[key]}).removesuffix("]}")


def _without_marks(body: dict[str, Any]) -> dict[str, Any]:
    if "system" not in body:
        return body
    messages = [
        {
            **message,
            "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]],
        }
        for message in body["messages"]
    ]
    return {**body, "messages": messages}
