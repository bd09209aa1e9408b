"""Answers in the wire formats of OpenAI (Responses, Chat Completions) and Anthropic (Messages), whole and streamed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.providers.cache import CacheUse
from tests.support.providers.rules import seal
from tests.support.providers.script import Break, Call, Fail, Hold, Piece, Reply, Thought

Frame = bytes | Hold | Break
"""What is sent, or what happens instead."""
_HALVES = 2


@dataclass(frozen=True)
class Answer:
    """A reply, and what has to be told with it."""

    reply: Reply
    model: str
    prefix: str
    """Of the ids in the answer: the same for a repeated request."""
    use: CacheUse
    usage_when: str = "always"
    encrypts: bool = False
    """Whether the request asked for encrypted reasoning."""

    @property
    def output_tokens(self) -> int:
        said = "".join(one if isinstance(one, str) else one.raw for one in self.spoken if not isinstance(one, Thought))
        return max(1, len(said.encode()) // 4)

    @property
    def spoken(self) -> list[str | Call | Thought]:
        """Texts, those that follow each other joined, thoughts, and calls with their ids."""
        spoken: list[str | Call | Thought] = []
        for piece in self.numbered:
            if isinstance(piece, str) and spoken and isinstance(spoken[-1], str):
                spoken[-1] += piece
            elif isinstance(piece, str | Call | Thought):
                spoken.append(piece)
        return spoken

    @property
    def numbered(self) -> list[Piece]:
        return [
            Call(piece.name, piece.arguments, piece.id or f"{self.prefix}_{index}")
            if isinstance(piece, Call)
            else piece
            for index, piece in enumerate(self.reply.pieces)
        ]


def _sse(data: dict[str, Any], *, event: bool = True) -> bytes:
    head = f"event: {data['type']}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _split(text: str) -> list[str]:
    middle = len(text) // _HALVES
    return [part for part in (text[:middle], text[middle:]) if part]


def responses_body(answer: Answer, *, finished: bool = True) -> dict[str, Any]:
    finish = answer.reply.finish
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish or "")
    status = "in_progress" if not finished else "incomplete" if reason else "completed"
    use, output_tokens = answer.use, answer.output_tokens
    usage = {
        "input_tokens": use.total,
        "input_tokens_details": {"cached_tokens": use.read, "cache_write_tokens": use.written},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": use.total + output_tokens,
    }
    items = [_item(answer, index, piece) for index, piece in enumerate(answer.spoken)]
    return {
        "id": f"resp_{answer.prefix}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if finished and reason else None,
        "instructions": None,
        "metadata": {},
        "model": answer.model,
        "output": items if finished else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if finished else None,
    }


def _item(answer: Answer, index: int, piece: str | Call | Thought) -> dict[str, Any]:
    if isinstance(piece, Thought):
        summary = [{"type": "summary_text", "text": piece.text}]
        item: dict[str, Any] = {"id": f"rs_{answer.prefix}_{index}", "type": "reasoning", "summary": summary}
        return {**item, "encrypted_content": seal(answer.model, piece.text)} if answer.encrypts else item
    if isinstance(piece, str):
        content = [{"type": "output_text", "text": piece, "annotations": [], "logprobs": []}]
        own = {"id": f"msg_{answer.prefix}_{index}", "type": "message", "status": "completed", "role": "assistant"}
        return {**own, "content": content}
    own = {"id": f"fc_{answer.prefix}_{index}", "type": "function_call", "status": "completed", "call_id": piece.id}
    return {**own, "name": piece.name, "arguments": piece.raw}


def responses_stream(answer: Answer) -> Iterator[Frame]:
    events = _ResponsesEvents(answer)
    yield events.event("response.created", response=responses_body(answer, finished=False))
    yield events.event("response.in_progress", response=responses_body(answer, finished=False))
    for piece in answer.numbered:
        match piece:
            case str():
                yield from events.text(piece)
            case Call():
                yield from events.text_ends()
                yield from events.call(piece)
            case Thought():
                yield from events.text_ends()
                yield from events.thought(piece)
            case Fail(kind=kind, message=message):
                yield events.event("error", code=kind, message=message, param=None)
                return
            case _:
                yield piece
    yield from events.text_ends()
    body = responses_body(answer)
    yield events.event(f"response.{body['status']}", response=body)


class _ResponsesEvents:
    """Numbers the events, and keeps the item under way."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._number = self._index = 0
        self._text = ""

    def event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return _sse({"type": kind, "sequence_number": self._number - 1, **fields})

    def text(self, piece: str) -> Iterator[bytes]:
        if not self._text:
            item = {**_item(self._answer, self._index, ""), "status": "in_progress", "content": []}
            yield self.event("response.output_item.added", output_index=self._index, item=item)
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield self.event("response.content_part.added", **self._at(), part=part)
        self._text += piece
        yield self.event("response.output_text.delta", **self._at(), delta=piece, logprobs=[])

    def text_ends(self) -> Iterator[bytes]:
        if not self._text:
            return
        item = _item(self._answer, self._index, self._text)
        yield self.event("response.output_text.done", **self._at(), text=self._text, logprobs=[])
        yield self.event("response.content_part.done", **self._at(), part=item["content"][0])
        yield self.event("response.output_item.done", output_index=self._index, item=item)
        self._index, self._text = self._index + 1, ""

    def call(self, call: Call) -> Iterator[bytes]:
        item = _item(self._answer, self._index, call)
        where = {"item_id": item["id"], "output_index": self._index}
        started = {**item, "status": "in_progress", "arguments": ""}
        yield self.event("response.output_item.added", output_index=self._index, item=started)
        for part in _split(call.raw):
            yield self.event("response.function_call_arguments.delta", **where, delta=part)
        yield self.event("response.function_call_arguments.done", **where, name=call.name, arguments=call.raw)
        yield self.event("response.output_item.done", output_index=self._index, item=item)
        self._index += 1

    def thought(self, thought: Thought) -> Iterator[bytes]:
        item = _item(self._answer, self._index, thought)
        yield self.event("response.output_item.added", output_index=self._index, item={**item, "summary": []})
        yield self.event("response.output_item.done", output_index=self._index, item=item)
        self._index += 1

    def _at(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._answer.prefix}_{self._index}", "output_index": self._index, "content_index": 0}


def _chat_usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.use.total,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.use.total + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.use.read},
    }


def _chat_finish(answer: Answer) -> str:
    return answer.reply.finish or ("tool_calls" if any(isinstance(one, Call) for one in answer.spoken) else "stop")


def _chat_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}


def chat_body(answer: Answer) -> dict[str, Any]:
    text = "".join(one for one in answer.spoken if isinstance(one, str))
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls := [_chat_call(one) for one in answer.spoken if isinstance(one, Call)]:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _chat_finish(answer)}
    own = {"id": f"chatcmpl-{answer.prefix}", "object": "chat.completion", "created": 0, "model": answer.model}
    return {**own, "choices": [choice], "usage": _chat_usage(answer)}


def chat_stream(answer: Answer) -> Iterator[Frame]:
    own = {"id": f"chatcmpl-{answer.prefix}", "object": "chat.completion.chunk", "created": 0, "model": answer.model}

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse({**own, "choices": [choice], **more}, event=False)

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for piece in answer.numbered:
        match piece:
            case str():
                yield chunk({"content": piece})
            case Thought():
                yield chunk({"reasoning_content": piece.text})
            case Call():
                first, *rest = _split(piece.raw) or [""]
                head = {"index": calls, "id": piece.id, "type": "function"}
                yield chunk({"tool_calls": [{**head, "function": {"name": piece.name, "arguments": ""}}]})
                for part in (first, *rest):
                    yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": part}}]})
                calls += 1
            case Fail(kind=kind, message=message):
                error = {"message": message, "type": kind, "param": None, "code": None}
                yield f"data: {json.dumps({'error': error})}\n\n".encode()
                return
            case _:
                yield piece
    with_last = {"usage": _chat_usage(answer)} if answer.usage_when == "with_last" else {}
    yield chunk({}, _chat_finish(answer), **with_last)
    if answer.usage_when == "on_request":
        yield _sse({**own, "choices": [], "usage": _chat_usage(answer)}, event=False)
    yield b"data: [DONE]\n\n"


def _claude_finish(answer: Answer) -> str:
    if answer.reply.finish:
        return {"length": "max_tokens", "content_filter": "refusal"}[answer.reply.finish]
    return "tool_use" if any(isinstance(one, Call) for one in answer.spoken) else "end_turn"


def _claude_usage(answer: Answer, output_tokens: int) -> dict[str, Any]:
    use = answer.use
    return {
        "input_tokens": use.total - use.read - use.written,
        "cache_creation_input_tokens": use.written,
        "cache_read_input_tokens": use.read,
        "output_tokens": output_tokens,
    }


def _claude_block(piece: str | Call | Thought, model: str) -> dict[str, Any]:
    if isinstance(piece, Thought):
        return {"type": "thinking", "thinking": piece.text, "signature": seal(model, piece.text)}
    if isinstance(piece, str):
        return {"type": "text", "text": piece, "citations": None}
    return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": _object(piece.raw)}


def _object(raw: str) -> Any:
    try:
        return json.loads(raw or "{}")
    except ValueError:
        return {}


def messages_body(answer: Answer, *, finished: bool = True) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.prefix}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [_claude_block(one, answer.model) for one in answer.spoken] if finished else [],
        "stop_reason": _claude_finish(answer) if finished else None,
        "stop_sequence": None,
        "usage": _claude_usage(answer, answer.output_tokens if finished else 1),
    }


def messages_stream(answer: Answer) -> Iterator[Frame]:
    yield _sse({"type": "message_start", "message": messages_body(answer, finished=False)})
    yield _sse({"type": "ping"})
    index, is_open = 0, False
    for piece in answer.numbered:
        match piece:
            case str():
                if not is_open:
                    yield _sse(
                        {
                            "type": "content_block_start",
                            "index": index,
                            "content_block": _claude_block("", answer.model),
                        }
                    )
                    is_open = True
                yield _claude_delta(index, {"type": "text_delta", "text": piece})
            case Call() | Thought():
                if is_open:
                    yield _sse({"type": "content_block_stop", "index": index})
                    index, is_open = index + 1, False
                yield from _claude_whole_block(index, piece, answer.model)
                index += 1
            case Fail(kind=kind, message=message):
                yield _sse({"type": "error", "error": {"type": kind, "message": message}})
                return
            case _:
                yield piece
    if is_open:
        yield _sse({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": _claude_finish(answer), "stop_sequence": None}
    yield _sse({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.output_tokens}})
    yield _sse({"type": "message_stop"})


def _claude_whole_block(index: int, piece: Call | Thought, model: str) -> Iterator[bytes]:
    block = _claude_block(piece, model)
    if isinstance(piece, Call):
        yield _claude_start(index, {**block, "input": {}})
        for part in ("", *_split(piece.raw)):
            yield _claude_delta(index, {"type": "input_json_delta", "partial_json": part})
    else:
        yield _claude_start(index, {**block, "thinking": "", "signature": ""})
        for part in _split(piece.text):
            yield _claude_delta(index, {"type": "thinking_delta", "thinking": part})
        yield _claude_delta(index, {"type": "signature_delta", "signature": block["signature"]})
    yield _sse({"type": "content_block_stop", "index": index})


def _claude_start(index: int, block: dict[str, Any]) -> bytes:
    return _sse({"type": "content_block_start", "index": index, "content_block": block})


def _claude_delta(index: int, delta: dict[str, Any]) -> bytes:
    return _sse({"type": "content_block_delta", "index": index, "delta": delta})


def error_body(protocol: str, kind: str, message: str, code: str | None) -> dict[str, Any]:
    """An error as the provider puts it."""
    if protocol == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


STREAMS = {"responses": responses_stream, "chat": chat_stream, "messages": messages_stream}
BODIES = {"responses": responses_body, "chat": chat_body, "messages": messages_body}


def whole_frames(protocol: str, answer: Answer) -> Sequence[Frame]:
    """A whole answer: held, broken or failed where the reply says so."""
    events = [piece for piece in answer.reply.pieces if isinstance(piece, Hold | Break)]
    return [*events, json.dumps(BODIES[protocol](answer)).encode()]
