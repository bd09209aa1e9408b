"""Records of the client phase in a call's result: who answered what, or why nobody did."""

import json
from typing import Any, cast

from pydantic import BaseModel, JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import CLIENT_META, TextContent, ToolResult
from outlast.workflows.tools.framework.hand_over import NoReply
from outlast.workflows.tools.framework.phases import ClientPhase, Reply

_STANDS = "The result above is complete and stands: do not repeat the call because of this."


def as_object(value: object) -> JsonObject:
    """A model or a dict as JSON."""
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else cast(JsonObject, value)


def recorded(result: ToolResult, phase: ClientPhase, reply: Reply[Any]) -> ToolResult:
    """`result` of a server step that has seen the reply; its meta says who answered."""
    return _with_record(result, _record_of(phase, reply))


def with_answer(result: ToolResult, phase: ClientPhase, reply: Reply[Any]) -> ToolResult:
    """`result` of a server step that came before the client, with the client's answer beside it."""
    content = as_object(reply.answer)
    if not content:
        return recorded(result, phase, reply)
    who = "Nobody answered in time; this stands for the answer" if reply.answered_by is None else "The client answered"
    shown = _with_text(result, f"{who}: {json.dumps(content, ensure_ascii=False)}")
    return _with_record(shown, {**_record_of(phase, reply), "answer": content})


def without_answer(result: ToolResult, phase: ClientPhase, missing: NoReply) -> ToolResult:
    """`result` of a server step that came before the client, with a note that the client gave no answer."""
    note = f"{missing.message} {_STANDS}"
    record: JsonObject = {"phase": phase.name, "answeredBy": missing.answered_by, "unanswered": missing.reason}
    return _with_record(_with_text(result, note), {**record, "note": note})


def not_merged(result: ToolResult, phase: ClientPhase, reply: Reply[Any], reason: str) -> ToolResult:
    """`result` with the client's answer beside it, and a note that the tool could not merge the two."""
    note = f"The client's answer could not be merged into the result: {reason} {_STANDS}"
    answered = with_answer(result, phase, reply)
    record = answered.meta[CLIENT_META]
    assert isinstance(record, dict)
    return _with_record(_with_text(answered, note), {**record, "note": note})


def _record_of(phase: ClientPhase, reply: Reply[Any]) -> JsonObject:
    record: JsonObject = {"phase": phase.name, "answeredBy": reply.answered_by}
    return {**record, "isDefault": True} if reply.answered_by is None else record


def _with_record(result: ToolResult, record: dict[str, JsonValue]) -> ToolResult:
    return result.model_copy(update={"meta": {**result.meta, CLIENT_META: record}})


def _with_text(result: ToolResult, text: str) -> ToolResult:
    """`result` with one more block of text, also where its blocks are another server's."""
    if result.raw_content is not None:
        return result.model_copy(update={"raw_content": (*result.raw_content, {"type": "text", "text": text})})
    return result.model_copy(update={"content": (*result.content, TextContent(text=text))})
