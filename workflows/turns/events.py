"""The events that a turn publishes. Each batch is one change of its memo, and so one entry of its history.

Streamed text and retries of a model's call are read from the history, where they are anyway.
"""

from pydantic import JsonValue
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.llm.compaction import Compacted

from outlast.activities.llm.contracts import ModelStep, Usage
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.sessions import Spent, StepSeconds, TurnEvent, TurnEvents, TurnResult
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.common.invalid import shown_input
from outlast.workflows.turns.steps import PlannedCall

_PREVIEW_CHARS = 500
_SUMMARY_CHARS = 1_500


def publish(*events: TurnEvent) -> None:
    """Add `events` to the turn's log, as one change of its memo."""
    if events:
        workflow.upsert_memo({memo.TURN_EVENTS: TurnEvents(events=events)})


def tool_call(step: int, call: PlannedCall) -> TurnEvent:
    """The model asks for a tool; `task_id` when there is a task for it."""
    data: dict[str, JsonValue] = {
        "step": step,
        "call_id": call.part.id,
        "tool": call.name,
        "arguments": shown_input(call.part.raw_arguments if call.part.arguments is None else call.part.arguments),
    }
    return TurnEvent(name="tool-call", data=data | ({"task_id": call.task_id} if call.task_id else {}))


def tool_result(step: int, call: PlannedCall, result: ToolResult) -> TurnEvent:
    """A call has its result. `compressed`, `locator` and `summary` are there when it was stored."""
    data: dict[str, JsonValue] = {
        "step": step,
        "call_id": call.part.id,
        "tool": call.name,
        "is_error": result.is_error,
        "preview": result.text[:_PREVIEW_CHARS],
    }
    if call.task_id:
        data["task_id"] = call.task_id
    if result.error is not None:
        data["error"] = result.error.model_dump(mode="json", exclude_none=True)
    if result.locator is not None:
        summary = (result.structured or {}).get("summary")
        text = summary if isinstance(summary, str) else result.text
        data |= {"compressed": True, "locator": result.locator, "summary": text[:_SUMMARY_CHARS]}
    return TurnEvent(name="tool-result", data=data)


def reminder(step: int, tool: str, text: str) -> TurnEvent:
    """The model was reminded, once, not to repeat a failure."""
    return TurnEvent(name="reminder", data={"step": step, "tool": tool, "text": text})


def compaction(step: int, found: Compacted, originals: str | None, usage: Usage, cost_usd: float | None) -> TurnEvent:
    """Older messages were summarised, because the conversation is longer than the model's window.

    `originals` is the page token with which the session's messages are listed from the latest summarised one on.
    """
    data: dict[str, JsonValue] = {
        "step": step,
        "summarised_messages": found.summarised,
        "summary": found.summary[:_SUMMARY_CHARS],
        "originals": originals,
        "locators": list(found.locators),
        "usage": usage.model_dump(),
        "cost_usd": cost_usd,
    }
    return TurnEvent(name="compaction", data=data)


def step_finish(
    step: int, answer: ModelStep, spent: Spent, active: tuple[str, ...] | None, seconds: StepSeconds
) -> TurnEvent:
    """A step is over. The numbers are always there."""
    data: dict[str, JsonValue] = {
        "step": step,
        "finish_reason": answer.finish_reason,
        "usage": answer.usage.model_dump(),
        "cost_usd": answer.cost_usd,
        "total_usage": spent.usage.model_dump(),
        "seconds": seconds.model_dump(),
    }
    if active is not None:
        data["active_tools"] = list(active)
    if answer.warnings:
        data["warnings"] = list(answer.warnings)
    return TurnEvent(name="step-finish", data=data)


def finish(result: TurnResult) -> tuple[TurnEvent, ...]:
    """The end of a turn, after the error when there was one."""
    end = TurnEvent(
        name="finish",
        data={
            "turn_id": result.turn_id,
            "status": result.status.value,
            "reason": result.reason,
            "steps": result.spent.steps,
            "usage": result.spent.usage.model_dump(),
            "cost_usd": result.spent.usd,
        },
    )
    if result.error is None:
        return (end,)
    return TurnEvent(name="error", data=result.error.model_dump(mode="json", exclude_none=True)), end
