"""Tools: calls, failures, durations, sizes of answers."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    Variable,
    graph,
    mean,
    quantile,
    rate,
    row,
    runbook,
    share,
    stacked,
    workflows,
)

_OF = 'namespace="$namespace", tool=~"$tool"'
_CALLS = f"outlast_tool_calls_total{{{_OF}}}"
_FAILED = f'outlast_tool_calls_total{{{_OF}, outcome="failed"}}'
_CANCELLED = f'outlast_tool_calls_total{{{_OF}, outcome="cancelled"}}'
_DURATION = f"outlast_tool_call_duration_seconds{{{_OF}}}"
_BYTES = f"outlast_result_bytes_total{{{_OF}}}"
_FAILED_TASKS = workflows("Failed tasks", "OutlastTaskStatus = 'failed'")
_ALL_TASKS = workflows("All tasks", "WorkflowType = 'ToolCallWorkflow'")

TOOLS = Board(
    uid="outlast-tools",
    title="Outlast / Tools",
    description="Calls of each tool. All direct Actor tools are counted as `actor-tool`.",
    variables=(Variable("tool", "Tool", 'outlast_tool_calls_total{namespace="$namespace"}', "tool"),),
    rows=(
        row(
            "Calls",
            stacked(
                "Calls",
                "Calls whose handler returned, per second.",
                Query(rate(_CALLS, "tool"), "{{tool}}"),
                _ALL_TASKS,
            ),
            graph(
                "Share that failed",
                "Calls that answered with an error.",
                Query(share(_FAILED, _CALLS, "tool"), "{{tool}}"),
                [runbook("tool-failures"), _FAILED_TASKS],
                Unit.SHARE,
                limits=Limits.above(0.1, 0.3),
            ),
            graph(
                "Share that was cancelled",
                "Cancelled by callers, or because a budget or deadline was exceeded.",
                Query(share(_CANCELLED, _CALLS, "tool"), "{{tool}}"),
                workflows("Cancelled tasks", "OutlastTaskStatus = 'cancelled'"),
                Unit.SHARE,
            ),
        ),
        row(
            "Duration",
            graph(
                "p50",
                "From the start of a call until its handler returned, including the wait for a worker.",
                Query(quantile(0.5, _DURATION, "tool"), "{{tool}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
            graph(
                "p95",
                "From the start of a call until its handler returned, including the wait for a worker.",
                Query(quantile(0.95, _DURATION, "tool"), "{{tool}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
            graph(
                "Mean by executor",
                "`sync` calls wait for their run, `async` calls return when it has started, `none` start no run.",
                Query(mean(_DURATION, "executor"), "{{executor}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
        ),
        row(
            "Answers",
            stacked(
                "Text answered",
                "Bytes of text per second that handlers returned. Larger outputs are stored.",
                Query(rate(_BYTES, "tool"), "{{tool}}"),
                runbook("output-store"),
                Unit.BYTES_PER_SECOND,
            ),
            graph(
                "Text per call",
                "Mean size of the text that a model reads.",
                Query(f"{rate(_BYTES, 'tool')} / ({rate(_CALLS, 'tool')} > 0)", "{{tool}}"),
                runbook("output-store"),
                Unit.BYTES,
            ),
            stacked(
                "Tool masks",
                "Masks resolved per second in API and worker, by outcome.",
                Query(rate("outlast_tool_mask_resolutions_total", "outcome") + " or vector(0)", "{{outcome}}"),
                runbook("dynamic-tools", "Runbook: tool masks"),
            ),
        ),
    ),
)
