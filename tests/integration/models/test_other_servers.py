"""Streams of servers that speak a provider's protocol nearly: calls and texts as a stream of the provider gives them.

Each stream is sent over HTTP, byte for byte. The names in the cases are those of the servers that send such streams.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import classify
from outlast.activities.failures.exceptions import ProviderError
from outlast.activities.llm.contracts import ModelStep
from outlast.activities.llm.providers.answers import Provider
from outlast.activities.llm.providers.requests import canonical_definitions
from tests.support.providers.model_requests import DEFINITIONS, Heard, definition, order, providers_for
from tests.support.providers.script import Break, Hold, Raw, by_position, in_order, says
from tests.support.providers.server import ProviderServer, running_provider

OSLO, ROME = {"q": "Oslo"}, {"q": "Rome"}
TOOLS = canonical_definitions((*DEFINITIONS, definition("ping"), definition("search_more")))


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with running_provider(by_position(says("Hello."))) as server:
        yield server


@pytest.fixture
async def generic(server: ProviderServer) -> AsyncIterator[Provider]:
    async with _provider(server, "generic") as provider:
        yield provider


@asynccontextmanager
async def _provider(server: ProviderServer, name: str, **changes: object) -> AsyncIterator[Provider]:
    provider = providers_for(server, **changes)[name]
    yield provider
    await provider.close()


def sse(*events: Any, done: bool = True, end: str = "\n") -> Raw:
    """A stream of these events, and `[DONE]`."""
    lines = [event if isinstance(event, str) else f"data: {json.dumps(event)}" for event in events]
    lines += ["data: [DONE]"] if done else []
    return Raw(tuple(f"{line}{end}{end}".encode(errors="surrogateescape") for line in lines))


def _bytewise(stream: Raw) -> Raw:
    body = b"".join(piece for piece in stream.pieces if isinstance(piece, bytes))
    return Raw(tuple(bytes([one]) for one in body))


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """One entry of `tool_calls`."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "type": "function", "function": function}


def calls(*pieces: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chunk(finish, tool_calls=list(pieces))


END, STOP = chunk("tool_calls"), chunk("stop")
OF_OSLO, OF_ROME = json.dumps(OSLO), json.dumps(ROME)
BOTH = [("search", OSLO), ("fetch", ROME)]

CALLS: dict[str, tuple[Raw, list[tuple[str, Any]]]] = {
    "ollama: both have index 0 and an id of their own, in one chunk": (
        sse(calls(piece("search", OF_OSLO, index=0, id="a"), piece("fetch", OF_ROME, index=0, id="b")), END),
        BOTH,
    ),
    "ollama: the same in two chunks, of one tool, with a finish_reason in each": (
        sse(
            calls(piece("search", OF_OSLO, index=0, id="a"), finish="tool_calls"),
            calls(piece("search", OF_ROME, index=0, id="b"), finish="tool_calls"),
        ),
        [("search", OSLO), ("search", ROME)],
    ),
    "ollama: without arguments": (
        sse(calls(piece("ping", "{}", index=0, id="a"), piece("ping", "{}", index=0, id="b")), STOP),
        [("ping", {}), ("ping", {})],
    ),
    "index 0 for all, and pieces told apart by their ids": (
        sse(
            calls(piece("search", "", index=0, id="a")),
            calls(piece("fetch", "", index=0, id="b")),
            calls(piece(None, '{"q": "Os', index=0, id="a")),
            calls(piece(None, '{"q": "Ro', index=0, id="b")),
            calls(piece(None, 'lo"}', index=0, id="a")),
            calls(piece(None, 'me"}', index=0, id="b")),
            END,
        ),
        BOTH,
    ),
    "id and name repeated with each piece": (
        sse(*(calls(piece("search", part, index=0, id="a")) for part in ("", '{"q"', ': "Oslo"', "}", "")), END),
        [("search", OSLO)],
    ),
    "id and name repeated, and the whole arguments at the end": (
        sse(*(calls(piece("search", part, index=0, id="a")) for part in ('{"q"', ': "Oslo"}', OF_OSLO)), END),
        [("search", OSLO)],
    ),
    "vllm: a new id with each piece": (
        sse(
            calls(piece("search", index=0, id="x1")),
            calls(piece(None, '{"q": ', index=0, id="x2")),
            calls(piece(None, '"Oslo"}', index=0, id="x3")),
            calls(piece("fetch", index=1, id="x4")),
            calls(piece(None, OF_ROME, index=1, id="x5")),
            END,
        ),
        BOTH,
    ),
    "a new id and the name with each piece": (
        sse(*(calls(piece("search", part, index=0, id=f"x{len(part)}")) for part in ('{"q": ', '"Oslo"', "}")), END),
        [("search", OSLO)],
    ),
    "no index": (
        sse(
            calls(piece("search", "", id="a")),
            calls(piece(None, OF_OSLO)),
            calls(piece("fetch", "", id="b")),
            calls(piece(None, OF_ROME)),
            END,
        ),
        BOTH,
    ),
    "index null, no ids, whole": (
        sse(calls(piece("search", OF_OSLO, index=None), piece("fetch", OF_ROME, index=None)), END),
        BOTH,
    ),
    "no index, no ids, of one tool": (
        sse(calls(piece("search", OF_OSLO)), calls(piece("search", OF_ROME)), END),
        [("search", OSLO), ("search", ROME)],
    ),
    "no index, no ids, one without arguments": (
        sse(calls(piece("ping"), piece("made_up", OF_OSLO)), END),
        [("ping", {}), ("made_up", OSLO)],
    ),
    "indexes from 1": (
        sse(
            calls(piece("search", "", index=1, id="a")),
            calls(piece(None, OF_OSLO, index=1)),
            calls(piece("fetch", "", index=2, id="b")),
            calls(piece(None, OF_ROME, index=2)),
            END,
        ),
        BOTH,
    ),
    "indexes as texts, ids as numbers": (
        sse(calls(piece("search", OF_OSLO, index="0", id=7), piece("fetch", OF_ROME, index="1", id=8)), END),
        BOTH,
    ),
    "an index only where a call begins": (
        sse(calls(piece("search", "", index=0, id="a")), calls(piece(None, OF_OSLO)), END),
        [("search", OSLO)],
    ),
    "an index that grows with each piece": (
        sse(
            calls(piece("search", '{"q"', index=0, id="a")),
            calls(piece("search", ': "Oslo"', index=1, id="a")),
            calls(piece(None, "}", index=2, id="a")),
            END,
        ),
        [("search", OSLO)],
    ),
    "mistral: the whole call in one chunk, with the end": (
        sse(calls(piece("search", OF_OSLO, index=0, id="a"), finish="tool_calls")),
        [("search", OSLO)],
    ),
    "arguments as objects": (
        sse(calls(piece("search", OSLO, index=0, id="a"), piece("fetch", ROME, index=1, id="b")), END),
        BOTH,
    ),
    "arguments as JSON in a JSON text": (
        sse(calls(piece("search", json.dumps(OF_OSLO), index=0, id="a")), END),
        [("search", OSLO)],
    ),
    "bedrock gateway: {} before the real arguments": (
        sse(calls(piece("search", "{}", index=0, id="a")), calls(piece(None, OF_OSLO, index=0)), END),
        [("search", OSLO)],
    ),
    "arguments null and left out": (
        sse(calls({"index": 0, "id": "a", "function": {"name": "ping", "arguments": None}}), END),
        [("ping", {})],
    ),
    "go, php: null and an empty array for no arguments": (
        sse(calls(piece("ping", "null", index=0, id="a"), piece("ping", "[]", index=1, id="b")), END),
        [("ping", {}), ("ping", {})],
    ),
    "null before the real arguments": (
        sse(calls(piece("search", "null", index=0, id="a")), calls(piece(None, OF_OSLO, index=0)), END),
        [("search", OSLO)],
    ),
    "a piece of the arguments before the name": (
        sse(calls(piece(None, '{"q": ', index=0, id="a")), calls(piece("search", '"Oslo"}', index=0)), END),
        [("search", OSLO)],
    ),
    "ids left out": (sse(calls(piece("search", OF_OSLO, index=0), piece("fetch", OF_ROME, index=1)), END), BOTH),
    "empty ids": (
        sse(calls(piece("search", OF_OSLO, index=0, id="")), calls(piece("fetch", OF_ROME, index=1, id="")), END),
        BOTH,
    ),
    "the same id twice": (
        sse(
            calls(piece("search", "", index=0, id="call_0")),
            calls(piece(None, OF_OSLO, index=0)),
            calls(piece("search", "", index=1, id="call_0")),
            calls(piece(None, OF_ROME, index=1)),
            END,
        ),
        [("search", OSLO), ("search", ROME)],
    ),
    "the same id and index twice": (
        sse(calls(piece("search", OF_OSLO, index=0, id="c"), piece("search", OF_ROME, index=0, id="c")), END),
        [("search", OSLO), ("search", ROME)],
    ),
    "the name in pieces": (
        sse(
            calls(piece("sea", index=0, id="a")),
            calls(piece("rch", index=0)),
            calls(piece("_more", OF_OSLO, index=0)),
            END,
        ),
        [("search_more", OSLO)],
    ),
    "finish_reason stop": (sse(calls(piece("search", OF_OSLO, index=0, id="a")), STOP), [("search", OSLO)]),
    "finish_reason unknown": (
        sse(calls(piece("search", OF_OSLO, index=0, id="a")), chunk("tool_call")),
        [("search", OSLO)],
    ),
    "no function": (
        sse(calls({"index": 0, "id": "a", "name": "search", "arguments": OSLO}), END),
        [("search", OSLO)],
    ),
    "tool_calls as one object": (sse(chunk(tool_calls=piece("search", OF_OSLO, id="a")), END), [("search", OSLO)]),
    "function_call": (
        sse(
            chunk(function_call={"name": "search", "arguments": ""}),
            chunk(function_call={"arguments": OF_OSLO}),
            chunk("function_call"),
        ),
        [("search", OSLO)],
    ),
    "arguments in the middle of which a character is cut": (
        sse(
            calls(piece("search", '{"q": "\ud83d', index=0, id="a")),
            calls(piece(None, '\ude00"}', index=0)),
            END,
        ),
        [("search", {"q": "😀"})],
    ),
    "arguments with half a character": (
        sse(calls(piece("search", r'{"q": "caf\ud83d"}', index=0, id="a")), END),
        [("search", {"q": "caf\ufffd"})],
    ),
    "neither [DONE] nor finish_reason": (
        sse(calls(piece("search", OF_OSLO, index=0, id="a")), done=False),
        [("search", OSLO)],
    ),
    "whole, though the server was to stream": (
        Raw(
            (
                json.dumps(
                    {
                        "object": "chat.completion",
                        "choices": [
                            {
                                "message": {
                                    "role": "assistant",
                                    "content": None,
                                    "tool_calls": [piece("search", OSLO)],
                                },
                                "finish_reason": "tool_calls",
                            }
                        ],
                    },
                    indent=2,
                ).encode(),
            ),
            "application/json; charset=utf-8",
        ),
        [("search", OSLO)],
    ),
}


@pytest.mark.parametrize("case", CALLS)
async def test_calls_are_read_as_they_were_meant(server: ProviderServer, generic: Provider, case: str) -> None:
    stream, expected = CALLS[case]
    server.script = in_order(stream)
    before, heard = len(server.requests), Heard()
    step = await generic.call(order("generic", definitions_json=TOOLS), heard)
    assert [(call.name, call.arguments) for call in step.tool_calls] == expected
    assert step.finish_reason == "tool_calls"
    ids = [call.id for call in step.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    assert len(server.requests) == before + 1
    pieces = {key: "".join(parts) for key, parts in heard.pieces.items()}
    assert pieces == {f"{call.name} {call.id}": call.raw_arguments for call in step.tool_calls if call.raw_arguments}


async def test_arguments_of_which_a_part_is_missing_are_no_arguments(server: ProviderServer, generic: Provider) -> None:
    server.script = in_order(sse(calls(piece("search", '{"q": "Os', index=0, id="a"))))
    step = await generic.call(order("generic"), Heard())
    assert [(call.name, call.arguments) for call in step.tool_calls] == [("search", None)]


HI = chunk(content="Hi")
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
TEXTS: dict[str, tuple[Raw, str]] = {
    "[DONE] without finish_reason": (sse(HI), "Hi"),
    "an empty finish_reason": (sse(HI, chunk("")), "Hi"),
    "finish_reason without [DONE]": (sse(HI, STOP, done=False), "Hi"),
    "neither": (sse(HI, done=False), "Hi"),
    "cut after finish_reason": (Raw((*sse(HI, STOP, done=False).pieces, Break())), "Hi"),
    "silent after finish_reason": (Raw((*sse(HI, STOP, done=False).pieces, Hold("never"))), "Hi"),
    "an error after finish_reason": (sse(HI, STOP, {"error": {"message": "usage is not available"}}), "Hi"),
    "an event cut after finish_reason": (Raw((*sse(HI, STOP, done=False).pieces, b'data: {"choi')), "Hi"),
    "azure: no choices in the first chunk": (sse({"choices": [], "prompt_filter_results": []}, HI, STOP), "Hi"),
    "choices null or left out": (sse({"choices": None}, {"object": "chat.completion.chunk"}, HI, STOP), "Hi"),
    "usage only, and null before": (sse({**HI, "usage": None}, STOP, USAGE), "Hi"),
    "delta null": (sse({"choices": [{"index": 0, "delta": None}]}, HI, STOP), "Hi"),
    "role in every chunk, tool_calls null": (
        sse(*(chunk(role="assistant", content=part, tool_calls=None) for part in ("", "H", None, "i")), STOP),
        "Hi",
    ),
    "mistral: content as a list": (
        sse(
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
            chunk(content=[{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]),
            STOP,
        ),
        "Hi",
    ),
    "reasoning beside the text": (
        sse(chunk(reasoning_content="Hm.", content=""), chunk(reasoning="Hm.", content=None), HI, STOP),
        "Hi",
    ),
    "an emoji in two halves": (sse(chunk(content="Hi \ud83d"), chunk(content="\ude00!"), STOP), "Hi 😀!"),
    "another, whose second half looks like a byte": (sse(chunk(content="\ud83d"), chunk(content="\udcc4"), STOP), "📄"),
    "an emoji in bytes of two events": (
        sse(
            'data: {"choices": [{"delta": {"content": "Hi \udcf0\udc9f"}}]}',
            'data: {"choices": [{"delta": {"content": "\udc98\udc80"}}]}',
            STOP,
        ),
        "Hi 😀",
    ),
    "a half of which the rest never comes": (sse(chunk(content="Hi \ud83d"), STOP), "Hi \ufffd"),
    "comments, other lines, and events that are no objects": (
        sse(": OPENROUTER PROCESSING", "retry: 3000", "id: 7", "data:", "data: ping", "data: 1", HI, ": x", STOP),
        "Hi",
    ),
    "CRLF": (sse(HI, STOP, end="\r\n"), "Hi"),
    "CR": (sse(HI, STOP, end="\r"), "Hi"),
    "a byte order mark, and no space after data:": (
        Raw((b"\xef\xbb\xbf" + b"data:" + json.dumps(HI).encode() + b"\n\ndata:[DONE]\n\n",)),
        "Hi",
    ),
    "one line end between events": (
        Raw(("".join(f"data: {json.dumps(one)}\n" for one in (HI, STOP)).encode() + b"data: [DONE]",)),
        "Hi",
    ),
    "an event in several lines": (
        Raw(("".join(f"data: {line}\n" for line in json.dumps(HI, indent=1).split("\n")).encode() + b"\n",)),
        "Hi",
    ),
    "bytes one by one": (_bytewise(sse(chunk(content="Hï 😀"), STOP, end="\r\n")), "Hï 😀"),
    "json lines": (Raw((f"{json.dumps(HI)}\n{json.dumps(STOP)}\n".encode(),), "application/x-ndjson"), "Hi"),
    "whole, though the server was to stream": (
        Raw((b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}',), "application/json"),
        "Hi",
    ),
    "a whole message at the end": (
        sse(HI, {"choices": [{"index": 0, "delta": {}, "message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        "Hi",
    ),
    "nothing but an end": (sse(STOP), ""),
}


@pytest.mark.parametrize("case", TEXTS)
async def test_texts_are_read_whole_and_paid_for_once(server: ProviderServer, generic: Provider, case: str) -> None:
    stream, expected = TEXTS[case]
    server.script = in_order(stream)
    before, heard = len(server.requests), Heard()
    step = await generic.call(order("generic"), heard)
    assert step.text == "".join(heard.texts) == expected
    assert step.finish_reason == ("other" if case in {"neither", "an event in several lines"} else "stop")
    assert len(server.requests) == before + 1


async def test_token_counts_are_read_after_the_end(server: ProviderServer, generic: Provider) -> None:
    server.script = in_order(sse(HI, STOP, USAGE))
    step = await generic.call(order("generic"), Heard())
    assert (step.usage.input_tokens, step.usage.output_tokens) == (3, 2)


V, P, R, N = ErrorCategory.VALIDATION, ErrorCategory.PLATFORM, ErrorCategory.RATE_LIMIT, ErrorCategory.NETWORK
ERRORS: dict[str, tuple[Raw, ErrorCategory, str]] = {
    "openai": (sse(HI, {"error": {"message": "Overloaded", "type": "server_error"}}), P, "Overloaded"),
    "a text": (sse({"error": "model runner has unexpectedly stopped"}), P, "unexpectedly stopped"),
    "vllm": (sse({"object": "error", "message": "Too long", "type": "BadRequestError", "code": 400}), V, "Too long"),
    "openrouter": (
        sse({**HI, "error": {"code": 429, "message": "Slow down"}, "choices": []}, chunk("error")),
        R,
        "Slow down",
    ),
    "an event of its own": (sse('event: error\ndata: {"message": "Broken"}'), P, "Broken"),
    "llama.cpp": (sse('error: {"code": 400, "message": "No slot"}'), V, "No slot"),
    "fastapi": (Raw((b'{"detail": "Not ready"}',), "application/json"), P, "Not ready"),
    "a finish_reason": (sse(HI, chunk("error")), P, "error"),
    "after a finish_reason that is the text null": (sse(chunk("null", content="H"), {"error": "Gone"}), P, "Gone"),
    "no event": (Raw((b"<html>Welcome to nginx!</html>",), "text/html"), N, "ended before"),
    "[DONE] and nothing else": (sse(), N, "ended before"),
    "an event cut off": (Raw((*sse(HI, done=False).pieces, b'data: {"choices": [{"del')), N, "cut off"),
    "arguments cut off without a mark": (
        sse(calls(piece("search", '{"q": "Os', index=0, id="a")), done=False),
        N,
        "ended before",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
async def test_an_error_in_a_stream_with_status_200_is_one(
    server: ProviderServer, generic: Provider, case: str
) -> None:
    stream, category, words = ERRORS[case]
    server.script = in_order(stream)
    with pytest.raises(ProviderError) as caught:
        await generic.call(order("generic"), Heard())
    envelope = classify(caught.value)
    assert (envelope.category, envelope.retryable) == (category, category is not V)
    assert words in envelope.message


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(index: int, words: str) -> dict[str, Any]:
    return delta(index, "text_delta", text=words)


def arguments(index: int, words: str) -> dict[str, Any]:
    return delta(index, "input_json_delta", partial_json=words)


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def without_index(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "index"}


TOOL = start(1, type="tool_use", id="t", name="search", input={})
BEGIN = {"type": "message_start", "message": {"usage": {"input_tokens": 3}}}
TURN_END = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}
LAST = {"type": "message_stop"}
MESSAGES: dict[str, tuple[Raw, str, list[tuple[str, Any]]]] = {
    "a text on an open tool block": (
        sse(BEGIN, TOOL, arguments(1, '{"q": '), text(1, "Hm."), arguments(1, '"Oslo"}'), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "arguments on an open text block": (
        sse(start(0, type="text", text=""), text(0, "H"), arguments(0, "{}"), text(0, "i"), TURN_END, LAST),
        "Hi",
        [],
    ),
    "arguments after the block's end": (
        sse(TOOL, arguments(1, OF_OSLO), stop(1), arguments(1, OF_ROME), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "one index for all blocks": (
        sse(
            start(0, type="text", text="Hi"),
            stop(0),
            {**TOOL, "index": 0},
            arguments(0, OF_OSLO),
            stop(0),
            start(0, type="tool_use", id="t", name="fetch", input={}),
            arguments(0, OF_ROME),
            stop(0),
            TURN_END,
            LAST,
        ),
        "Hi",
        BOTH,
    ),
    "a text without a beginning": (sse(text(0, "H"), text(0, "i"), stop(0), TURN_END, LAST), "Hi", []),
    "a block of an unknown type": (
        sse(start(0, type="server_thing"), text(0, "x"), stop(0), start(1, type="text", text="Hi"), TURN_END, LAST),
        "Hi",
        [],
    ),
    "the whole input at once": (
        sse(start(1, type="tool_use", id=None, name="search", input=OSLO), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "arguments as an object": (
        sse(TOOL, delta(1, "input_json_delta", partial_json=OSLO), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "null for no arguments": (sse(TOOL, arguments(1, "null"), stop(1), TURN_END, LAST), "", [("search", {})]),
    "pieces that do not name their block": (
        sse(TOOL, without_index(arguments(1, OF_OSLO)), without_index(text(1, "Hm.")), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "indexes as texts here and numbers there": (
        sse({**TOOL, "index": "1"}, arguments(1, OF_OSLO), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "an index that is none": (
        sse({**TOOL, "index": [1]}, {**arguments(1, OF_OSLO), "index": {}}, TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "the beginning of a call twice": (
        sse(TOOL, TOOL, arguments(1, OF_OSLO), stop(1), TURN_END, LAST),
        "",
        [("search", OSLO)],
    ),
    "null for texts, usage and the stop reason": (
        sse(
            {"type": "message_start", "message": {"usage": None}},
            start(0, type="text", text=None),
            text(0, "Hi"),
            TURN_END,
            {"type": "message_delta", "delta": {"stop_reason": None}, "usage": None},
            LAST,
        ),
        "Hi",
        [],
    ),
    "an emoji in two halves": (sse(text(0, "\ud83d"), text(0, "\ude00"), TURN_END, LAST), "😀", []),
    "no message_stop": (sse(text(0, "Hi"), TURN_END, done=False), "Hi", []),
    "cut before message_stop": (Raw((*sse(text(0, "Hi"), TURN_END, done=False).pieces, Break())), "Hi", []),
    "whole, though the server was to stream": (
        Raw(
            (
                json.dumps(
                    {
                        "type": "message",
                        "content": [
                            {"type": "text", "text": "Hi"},
                            {"type": "tool_use", "id": "t", "name": "search", "input": OSLO},
                        ],
                        "stop_reason": "tool_use",
                    }
                ).encode(),
            ),
            "application/json",
        ),
        "Hi",
        [("search", OSLO)],
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
async def test_disorder_in_a_stream_of_messages(server: ProviderServer, case: str) -> None:
    stream, words, expected = MESSAGES[case]
    await _check(server, "anthropic", stream, words, expected)


def item(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": fields}


def function(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments, **fields}


def said(words: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": words}]}


def completed(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **fields}}


RESPONSES: dict[str, tuple[Raw, str, list[tuple[str, Any]]]] = {
    "items that only their own events have": (
        sse(
            item("added", 0, **said("")),
            item("done", 0, **said("Hi")),
            item("added", 1, **function("search", "")),
            item("done", 1, **function("search", OF_OSLO)),
            completed(),
        ),
        "Hi",
        [("search", OSLO)],
    ),
    "no last event": (sse(item("added", 0), item("done", 0, **said("Hi"))), "Hi", []),
    "unknown events, items and parts": (
        sse(
            {"type": "response.new_thing", "delta": 1},
            {"no": "type"},
            completed({"type": "new_thing"}, {"type": "message", "content": [{"type": "new"}, None]}, said("Hi")),
        ),
        "Hi",
        [],
    ),
    "arguments as an object, and an id twice": (
        sse(completed(function("search", OSLO), function("fetch", OF_ROME), usage=None)),
        "",
        BOTH,
    ),
    "an index that is none": (
        sse({**item("added", 0, **function("search", "")), "output_index": [0]}, completed(function("search", OSLO))),
        "",
        [("search", OSLO)],
    ),
    "half a character": (sse(completed(said("Hi \ud83d"))), "Hi \ufffd", []),
}


@pytest.mark.parametrize("case", RESPONSES)
async def test_disorder_in_a_stream_of_responses(server: ProviderServer, case: str) -> None:
    stream, words, expected = RESPONSES[case]
    await _check(server, "openai", stream, words, expected)


async def test_a_response_whose_items_are_not_whole_has_ended_early(server: ProviderServer) -> None:
    server.script = in_order(sse(item("added", 0), item("added", 1), item("done", 0, **said("Hi"))))
    async with _provider(server, "openai") as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.call(order("openai"), Heard())
    assert classify(caught.value).category is N


async def _check(
    server: ProviderServer, name: str, stream: Raw, words: str, expected: list[tuple[str, Any]]
) -> ModelStep:
    server.script = in_order(stream)
    heard = Heard()
    async with _provider(server, name) as provider:
        step = await provider.call(order(name), heard)
    assert step.text == words
    assert [(call.name, call.arguments) for call in step.tool_calls] == expected
    assert len({call.id for call in step.tool_calls}) == len(expected)
    return step
