"""Metrics of tool calls and turns, exported with the worker's Temporal metrics.

The SDK leaves them out while replaying.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio import workflow

from outlast.activities.contracts import ErrorCategory
from outlast.activities.llm.contracts import ModelStep
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.mcp_servers.contracts import SESSION_LOST
from outlast.activities.spending.contracts import Cap, Settlement
from outlast.workflows.contracts.sessions import TurnResult
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolCall, ToolResult
from outlast.workflows.contracts.tool_masks import Resolution
from outlast.workflows.tools.registry import executor_kind, metric_label


def record_mask_resolution(resolution: Resolution, step: int) -> None:
    """Log and count the tools that a step's mask selects and skips; `api.catalog.catalog` does so for calls."""
    workflow.logger.info("tool mask resolved", extra={"step": step, **resolution.facts()})
    counter = workflow.metric_meter().create_counter(
        "outlast_tool_mask_resolutions", "Tool masks resolved, by outcome."
    )
    counter.add(1, {"outcome": resolution.outcome.value})


def count_step(provider_id: str, answer: ModelStep) -> None:
    """Count one call of a model: the call, its tokens and its duration."""
    labels = {"provider": provider_id if provider_id in MATRIX else "unknown"}
    meter = workflow.metric_meter()
    meter.create_counter("outlast_model_calls", "Calls of models that were answered.").add(1, labels)
    tokens = meter.create_counter("outlast_model_tokens", "Tokens of model calls; input includes cached ones.")
    for kind, count in answer.usage.model_dump().items():
        tokens.add(count, {**labels, "kind": kind.removesuffix("_tokens")})
    meter.create_histogram_timedelta(
        "outlast_model_call_duration", "Time from a request to a provider until its whole answer.", "duration"
    ).record(timedelta(seconds=answer.seconds), labels)


def count_spend(settlement: Settlement) -> None:
    """Count an entry that was booked in a ledger, and its cost. What was booked too much is not taken back."""
    spend = settlement.spend
    if settlement.cost_usd < 0:
        return
    histogram = workflow.metric_meter().create_histogram_float(
        "outlast_spend_usd", "US dollars that runs and models have cost, as booked in the ledgers."
    )
    histogram.record(float(settlement.cost_usd), {"kind": spend.kind, "payer": spend.payer})


def count_refusal(cap: Cap) -> None:
    """Count a call that a spending cap refused."""
    counter = workflow.metric_meter().create_counter(
        "outlast_spend_refusals", "Calls that a spending cap refused, by cap."
    )
    counter.add(1, {"cap": cap})


def count_near_caps(caps: Iterable[Cap]) -> None:
    """Count a call for which these caps were asked when 90% of them or more was spent."""
    counter = workflow.metric_meter().create_counter(
        "outlast_spend_near_cap", "Calls that were made when 90% of a spending cap or more was spent, by cap."
    )
    for cap in caps:
        counter.add(1, {"cap": cap})


def count_difference(usd: Decimal) -> None:
    """Record by how much a ledger differed from what the platform charged in the end."""
    histogram = workflow.metric_meter().create_histogram_float(
        "outlast_ledger_difference_usd", "US dollars by which ledgers differed from the platform's final charges."
    )
    histogram.record(float(abs(usd)))


def count_unread_charges(runs: int) -> None:
    """Count runs whose final charges could not be read for a day: they stay as they were booked."""
    counter = workflow.metric_meter().create_counter(
        "outlast_ledger_unread_charges", "Runs whose final charges could not be read."
    )
    counter.add(runs)


def count_turn(result: TurnResult) -> None:
    """Count a turn that has ended, and record its duration."""
    labels = {"status": result.status.value, "reason": result.reason}
    meter = workflow.metric_meter()
    meter.create_counter("outlast_turns", "Turns that have ended.").add(1, labels)
    duration = meter.create_histogram_timedelta(
        "outlast_turn_duration", "Time from the start of a turn to its end.", "duration"
    )
    duration.record(timedelta(seconds=result.spent.seconds), labels)


def count_batch(status: str, reason: str | None) -> None:
    """Count a batch that has ended, or stopped."""
    counter = workflow.metric_meter().create_counter("outlast_batches", "Batches that have ended or stopped.")
    counter.add(1, {"status": status, "reason": reason or "none"})


def count_firing(status: str) -> None:
    """Count a firing of a schedule that has ended."""
    counter = workflow.metric_meter().create_counter("outlast_firings", "Firings of schedules that have ended.")
    counter.add(1, {"status": status})


def count_delivery(event_type: str, outcome: str) -> None:
    """Count an event for a webhook that was delivered, dropped because the webhook was removed, or given up."""
    counter = workflow.metric_meter().create_counter(
        "outlast_webhook_deliveries", "Events for webhooks that were delivered, dropped or given up."
    )
    counter.add(1, {"type": event_type, "outcome": outcome})


def _server_outcome(status: TaskStatus, result: ToolResult | None) -> str:
    """Return how a call of a tool of an MCP server ended."""
    error = result.error if result is not None else None
    if result is None or error is None:
        return status.value
    if result.raw_content is not None or result.locator is not None:
        return "tool_error"  # the answer of the server
    if error.category is ErrorCategory.OUTCOME_UNKNOWN:
        return "outcome_unknown"
    return "session_lost" if error.message.startswith(SESSION_LOST) else status.value


def count_tool_call(
    call: ToolCall, status: TaskStatus, result: ToolResult | None, *, since: datetime, waited: timedelta
) -> None:
    """Count a call whose handler has returned, and record the bytes of its answer and its duration.

    The duration begins at `since`, by the clock of the Temporal server. It is shorter by `waited`.
    """
    labels = {"tool": metric_label(call), "executor": executor_kind(call), "outcome": status.value}
    meter = workflow.metric_meter()
    meter.create_counter("outlast_tool_calls", "Tool calls whose handler has returned.").add(1, labels)
    if call.server is not None:
        calls = meter.create_counter("outlast_mcp_calls", "Calls of tools of MCP servers whose handler has returned.")
        calls.add(1, {"server": call.server.server, "outcome": _server_outcome(status, result)})
    # `workflow.now()` is when Temporal handed out the workflow task. A slow worker carries it out much later, and only
    # the clock of its machine measures that. No decision of the workflow depends on it.
    elapsed = max(workflow.now(), datetime.now(UTC)) - since - waited
    meter.create_histogram_timedelta(
        "outlast_tool_call_duration",
        "Time from a call's start until its handler returned, the wait for a worker included.",
        "duration",
    ).record(max(elapsed, timedelta(0)), labels)
    size = len(result.text.encode()) if result else 0
    meter.create_counter("outlast_result_bytes", "Bytes of text answered by tool handlers.", "bytes").add(
        size, {"tool": labels["tool"]}
    )
