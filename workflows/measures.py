"""Metrics of tool calls, exported with the worker's Temporal metrics. The SDK leaves them out while replaying."""

from datetime import timedelta

from temporalio import workflow

from workflows.models import TaskStatus, ToolCall, ToolResult
from workflows.tools.masks import Resolution
from workflows.tools.registry import executor_kind, metric_label


def record_mask_resolution(resolution: Resolution, tool: str | None = None) -> None:
    """Log what a step's mask selected and skipped, and why, and count it; `api.tool_masks` does so for calls."""
    workflow.logger.info("tool mask resolved", extra={"tool": tool, **resolution.facts()})
    counter = workflow.metric_meter().create_counter(
        "outlast_tool_mask_resolutions", "Tool masks resolved, by outcome."
    )
    counter.add(1, {"outcome": resolution.outcome.value})


def count_tool_call(call: ToolCall, status: TaskStatus, result: ToolResult | None) -> None:
    """Count a call whose handler has returned, how long that took, and how many bytes it answered."""
    labels = {"tool": metric_label(call), "executor": executor_kind(call), "outcome": status.value}
    meter = workflow.metric_meter()
    meter.create_counter("outlast_tool_calls", "Tool calls whose handler has returned.").add(1, labels)
    elapsed: timedelta = workflow.now() - workflow.info().start_time
    meter.create_histogram_timedelta(
        "outlast_tool_call_duration", "Time from a call's start until its handler returned.", "duration"
    ).record(elapsed, labels)
    size = len(result.text.encode()) if result else 0
    meter.create_counter("outlast_result_bytes", "Bytes of text answered by tool handlers.", "bytes").add(
        size, {"tool": labels["tool"]}
    )
