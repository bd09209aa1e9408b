"""The server for tests against its oracle, the official libraries; and what providers refuse, it refuses."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.support.providers.script import Call, by_position, from_json, says
from tests.support.providers.server import KEY, ProviderServer, running_provider

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
SCRIPT = json.dumps(
    [
        {"say": ["I look. ", {"call": "search", "arguments": {"q": "x"}}]},
        {"say": "Found."},
        {"status": 503, "kind": "server_error", "message": "Later.", "headers": {"retry-after": "1"}},
    ]
)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider(from_json(SCRIPT)) as server:
        yield server


@pytest.fixture
async def claude(server: ProviderServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(server: ProviderServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def claude_tools() -> list[Any]:
    return [{"name": "search", "description": "Searches.", "input_schema": SCHEMA}]


async def test_anthropics_own_helper_understands_the_stream(claude: anthropic.AsyncAnthropic) -> None:
    asked: list[Any] = [{"role": "user", "content": "Find x."}]
    async with claude.messages.stream(model="m", max_tokens=100, messages=asked, tools=claude_tools()) as stream:
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.stop_reason == "tool_use"
    call = message.content[1]
    assert call.type == "tool_use"
    assert call.input == {"q": "x"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "x is here"}
    asked += [
        {
            "role": "assistant",
            "content": [block.model_dump(exclude={"citations", "caller"}) for block in message.content],
        },
        {"role": "user", "content": [result]},
    ]
    for block in asked[1]["content"]:
        for name in [name for name, value in block.items() if value is None]:
            del block[name]
    answer = await claude.messages.create(model="m", max_tokens=100, messages=asked, tools=claude_tools())
    assert answer.content[0].type == "text"
    assert answer.content[0].text == "Found."


async def test_openais_own_helpers_understand_the_streams(gpt: openai.AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "name": "search", "description": "S.", "parameters": SCHEMA, "strict": False}
    async with gpt.responses.stream(model="m", input="Find x.", tools=[tool]) as stream:
        response = await stream.get_final_response()
    assert [item.type for item in response.output] == ["message", "function_call"]
    assert response.output_text == "I look. "
    function: Any = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
    asked: Any = [{"role": "user", "content": "Find x."}]
    async with gpt.chat.completions.stream(model="m", messages=asked, tools=[function]) as chat:
        completion = await chat.get_final_completion()
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.arguments for call in calls] == ['{"q": "x"}']
    assert completion.choices[0].finish_reason == "tool_calls"


UNANSWERED = [
    {"role": "user", "content": "Find x."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}]},
    {"role": "user", "content": "Well?"},
]
REFUSED_BY_CLAUDE: list[tuple[dict[str, Any], str]] = [
    ({"messages": UNANSWERED, "tools": claude_tools()}, "without `tool_result`"),
    ({"messages": [{"role": "assistant", "content": "Hi."}]}, "first message"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "non-whitespace"),
    ({"extra_body": {"allowed_tools": []}}, "Unknown parameter: allowed_tools"),
    ({"tool_choice": {"type": "none"}}, "only allowed when tools"),
    ({"tools": [{**claude_tools()[0], "parameters": {}}]}, "Unknown parameter: parameters"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED_BY_CLAUDE)
async def test_what_anthropic_refuses_is_refused(
    claude: anthropic.AsyncAnthropic, fields: dict[str, Any], words: str
) -> None:
    plain: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi."}]}
    with pytest.raises(anthropic.BadRequestError, match=words):
        await claude.messages.create(**{**plain, **fields})


ASKED = {"role": "user", "content": "Hi."}
CALLED = {"type": "function_call", "call_id": "call_1", "name": "search", "arguments": "{}"}
ANSWERED = {"type": "function_call_output", "call_id": "call_2", "output": "x"}
TOOL = {"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}
UNDEFINED = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "fetch"}]}
REFUSED_BY_OPENAI: list[tuple[dict[str, Any], str]] = [
    ({"input": [ASKED, CALLED]}, "No tool output found for function call call_1"),
    ({"input": [ASKED, ANSWERED]}, "No tool call found for function call output with call_id call_2"),
    ({"tools": [TOOL], "tool_choice": UNDEFINED}, "not defined"),
    ({"tools": []}, "too short"),
    ({"tool_choice": "none"}, "only allowed when tools"),
    ({"extra_body": {"max_tokens": 1}}, "Unknown parameter: max_tokens"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED_BY_OPENAI)
async def test_what_openai_refuses_is_refused(gpt: openai.AsyncOpenAI, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        await gpt.responses.create(**{"model": "m", "input": [ASKED], **fields})


async def test_a_chat_whose_calls_are_not_answered_is_refused(gpt: openai.AsyncOpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    messages: Any = [ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}, ASKED]
    with pytest.raises(openai.BadRequestError, match="did not have response messages: call_1"):
        await gpt.chat.completions.create(model="m", messages=messages)


async def test_a_wrong_key_is_refused(server: ProviderServer) -> None:
    async with openai.AsyncOpenAI(api_key="wrong", base_url=f"{server.url}/v1", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.responses.create(model="m", input="Hi.")


async def test_a_model_calls_no_tool_that_it_may_not_call(server: ProviderServer, gpt: openai.AsyncOpenAI) -> None:
    server.script = by_position(says(Call("search", {"q": "x"})))
    tool: Any = TOOL
    response = await gpt.responses.create(model="m", input="Find x.", tools=[tool], tool_choice="none")
    assert response.output_text == "(I may not call search.)"


async def test_every_request_is_kept_byte_for_byte(server: ProviderServer, gpt: openai.AsyncOpenAI) -> None:
    raw = '{"input" :  "Grüß Gott", "model":"m"}'.encode()
    await gpt.post("/responses", content=raw, cast_to=object, options={"headers": {"Content-Type": "application/json"}})
    assert server.requests[0].raw == raw
