"""What a model of any provider is shown beside a call's answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.conversations.contracts import MediaPart, ToolCallPart
from outlast.activities.llm.providers.requests import SHOWN, result_content
from outlast.api.adapters.message_formats import ModelCall, Outcome, details, pieces_of
from outlast.api.tasks.task_text import still_working
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import AudioContent, ImageContent, TaskStatus, TextContent, ToolResult
from outlast.workflows.turns.steps import PlannedCall, result_part

ERROR = ErrorEnvelope(tool="t", message="No.", category=ErrorCategory.UNKNOWN, retryable=False, hint="Try another.")
PICTURE, SOUND = ImageContent(data="AAAA", mimeType="image/png"), AudioContent(data="AAAA", mimeType="audio/wav")


def test_a_call_that_waits_for_approval_shows_what_is_approved() -> None:
    parameters: dict[str, Any] = {
        "actor": "user/crawler",
        "arguments": {"startUrls": ["https://example.com"]},
        "budget": {"max_items": 5},
    }
    handoff = Handoff(kind="approval", tool="call-actor", phase="approval", parameters=parameters)
    task = Task(
        id="t-1",
        tool="call-actor",
        status=TaskStatus.INPUT_REQUIRED,
        mode="default",
        executor="sync",
        created_at=datetime.now(UTC),
        input_requests={"approval": InputRequest(message="Allow call-actor?", handoff=handoff)},
    )
    answer = still_working(task, run_report=False)

    shown: Any = details(Outcome(ModelCall("c-1", "call-actor", {}), "call-actor", answer, task, finished=False))

    assert shown["questions"]["approval"]["approve"] == {"tool": "call-actor", **parameters}


@pytest.mark.parametrize("shown", [SHOWN, frozenset[str]()], ids=["seeing", "not-seeing"])
@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content=(TextContent(text="Yes."),), structured={"a": 1}),
        ToolResult(structured={"a": 1}),
        ToolResult.failed(ERROR),
        ToolResult(content=(TextContent(text="one\ntwo"), PICTURE), is_error=True, error=ERROR),
        ToolResult(content=(PICTURE, SOUND)),
        ToolResult(structured={"compressed": True, "locator": "out_x"}, content=(TextContent(text="Stored."),)),
        ToolResult(raw_content=({"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},), is_error=True),
    ],
    ids=["text", "structured", "failed", "failed-with-output", "media", "stored", "proxied"],
)
def test_adapters_and_turns_say_the_same(result: ToolResult, shown: frozenset[str]) -> None:
    pieces = pieces_of(Outcome(ModelCall("c-1", "t", {}), "t", result), shown)
    part = result_part(PlannedCall(ToolCallPart(id="c-1", name="t", raw_arguments="{}"), "t"), result)
    text, media = result_content(part, shown)
    said = "\n".join(piece for piece in pieces if isinstance(piece, str))
    assert sorted(said.split("\n")) == sorted(text.split("\n"))
    assert tuple(piece for piece in pieces if isinstance(piece, MediaPart)) == media
