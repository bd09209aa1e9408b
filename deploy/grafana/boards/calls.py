"""Answers to callers: the overview, tools, and runs on the platform with their cost."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    Variable,
    graph,
    increase,
    mean,
    number,
    quantile,
    rate,
    row,
    runbook,
    share,
    stacked,
    workflows,
)

_CALLS = 'outlast_tool_calls_total{namespace="$namespace"}'
_FAILED = 'outlast_tool_calls_total{namespace="$namespace", outcome="failed"}'
_DURATION = 'outlast_tool_call_duration_seconds{namespace="$namespace"}'
_SPENT = 'outlast_spend_usd_sum{namespace="$namespace"}'
_REQUESTS = "outlast_http_requests_total"
_OPEN = workflows("Open tasks", "WorkflowType = 'ToolCallWorkflow' AND ExecutionStatus = 'Running'")
_FAILED_TASKS = workflows("Failed tasks", "OutlastTaskStatus = 'failed'")

OVERVIEW = Board(
    uid="outlast-overview",
    title="Outlast / Overview",
    description="Answers to callers: rate, duration, and cost.",
    rows=(
        row(
            "Now",
            number(
                "Tool calls", "Calls whose handler returned, per second.", Query(rate(_CALLS)), _OPEN, Unit.PER_SECOND
            ),
            number(
                "Calls that failed",
                "Share of calls that answered with an error. Some errors are caused by callers.",
                Query(share(_FAILED, _CALLS)),
                [runbook("tool-failures"), _FAILED_TASKS],
                Unit.SHARE,
                limits=Limits.above(0.1, 0.3),
            ),
            number(
                "Server errors",
                "Share of HTTP answers with status 5xx.",
                Query(share('outlast_http_requests_total{status=~"5.."}', _REQUESTS)),
                runbook("api-errors"),
                Unit.SHARE,
                limits=Limits.above(0.001, 0.05),
            ),
            number(
                "Open tasks",
                "Tasks whose workflow has not ended: running, or waiting for a run or a person.",
                Query("max(outlast_open_tasks)"),
                [_OPEN, runbook("slow-calls")],
            ),
            number(
                "Workers",
                "Worker processes that poll for tool calls. At 0, all tasks wait; none is lost.",
                Query(
                    'count(temporal_num_pollers{namespace="$namespace", task_queue="outlast-tools", '
                    'poller_type="workflow_task"} > 0) or vector(0)'
                ),
                runbook("workers"),
                limits=Limits.below(1, 1),
            ),
            number(
                "Spent",
                "US dollars that the ledgers recorded in the time shown.",
                Query(increase(_SPENT) + " or vector(0)"),
                runbook("money"),
                Unit.USD,
            ),
        ),
        row(
            "Rate, errors, duration",
            stacked(
                "Calls by outcome",
                "Calls whose handler returned, per second.",
                Query(rate(_CALLS, "outcome"), "{{outcome}}"),
                [_FAILED_TASKS, runbook("tool-failures")],
            ),
            graph(
                "Duration of quick calls",
                "Calls that start no run, from start to answer, including the wait for a worker.",
                [
                    Query(quantile(level, _DURATION.replace("}", ', executor="none"}')), f"p{level * 100:g}")
                    for level in (0.5, 0.95, 0.99)
                ],
                runbook("slow-calls"),
                Unit.SECONDS,
                limits=Limits.above(1, 5),
            ),
            stacked(
                "HTTP requests by status",
                "Answers of the API processes, per second.",
                Query(rate(_REQUESTS, "status"), "{{status}}"),
                runbook("api-errors"),
            ),
        ),
        row(
            "Backlog and money",
            graph(
                "Waiting for a worker",
                "Tasks in Temporal's queues that no worker has taken yet, by queue. Normally near 0.",
                Query(
                    'sum by (taskqueue) (approximate_backlog_count{namespace="$namespace", taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [runbook("slow-calls"), runbook("workers")],
                limits=Limits.above(100, 1000),
            ),
            graph(
                "Open tasks",
                "Open tasks of all callers, and tasks queued by their caller's concurrency limit.",
                [
                    Query("max(outlast_open_tasks)", "open"),
                    Query("sum(max by (caller) (outlast_queued_tasks)) or vector(0)", "queued"),
                ],
                [_OPEN, runbook("limits")],
            ),
            stacked(
                "Money per hour",
                "US dollars per hour, by kind and payer.",
                Query(f"3600 * {rate(_SPENT, 'kind, payer')}", "{{kind}}, {{payer}}"),
                runbook("money"),
                Unit.USD,
            ),
        ),
        row(
            "The API",
            graph(
                "Time until an answer begins",
                "p95 by route. Requests with `wait` include the wait.",
                Query(quantile(0.95, "outlast_http_request_duration_seconds", "route"), "{{route}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
            graph(
                "Refused because of a limit",
                "Requests and connections per second, by limit.",
                Query(rate("outlast_limited_total", "limit") + " or vector(0)", "{{limit}}"),
                runbook("limits"),
                Unit.PER_SECOND,
                limits=Limits.above(1),
            ),
            graph(
                "Share of each limit in use",
                "For the caller that is closest to the limit.",
                Query("max by (limit) (outlast_limit_used_ratio)", "{{limit}}"),
                runbook("limits"),
                Unit.SHARE,
                limits=Limits.above(0.7, 0.9),
            ),
        ),
    ),
)


_OF = 'namespace="$namespace", tool=~"$tool"'
_TOOL_CALLS = f"outlast_tool_calls_total{{{_OF}}}"
_TOOL_FAILED = f'outlast_tool_calls_total{{{_OF}, outcome="failed"}}'
_TOOL_CANCELLED = f'outlast_tool_calls_total{{{_OF}, outcome="cancelled"}}'
_TOOL_DURATION = f"outlast_tool_call_duration_seconds{{{_OF}}}"
_BYTES = f"outlast_result_bytes_total{{{_OF}}}"
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
                Query(rate(_TOOL_CALLS, "tool"), "{{tool}}"),
                _ALL_TASKS,
            ),
            graph(
                "Share that failed",
                "Calls that answered with an error.",
                Query(share(_TOOL_FAILED, _TOOL_CALLS, "tool"), "{{tool}}"),
                [runbook("tool-failures"), _FAILED_TASKS],
                Unit.SHARE,
                limits=Limits.above(0.1, 0.3),
            ),
            graph(
                "Share that was cancelled",
                "Cancelled by callers, or because a budget or deadline was exceeded.",
                Query(share(_TOOL_CANCELLED, _TOOL_CALLS, "tool"), "{{tool}}"),
                workflows("Cancelled tasks", "OutlastTaskStatus = 'cancelled'"),
                Unit.SHARE,
            ),
        ),
        row(
            "Duration",
            graph(
                "p50",
                "From the start of a call until its handler returned, including the wait for a worker.",
                Query(quantile(0.5, _TOOL_DURATION, "tool"), "{{tool}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
            graph(
                "p95",
                "From the start of a call until its handler returned, including the wait for a worker.",
                Query(quantile(0.95, _TOOL_DURATION, "tool"), "{{tool}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
            ),
            graph(
                "Mean by executor",
                "`sync` calls wait for their run, `async` calls return when it has started, `none` start no run.",
                Query(mean(_TOOL_DURATION, "executor"), "{{executor}}"),
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
                Query(f"{rate(_BYTES, 'tool')} / ({rate(_TOOL_CALLS, 'tool')} > 0)", "{{tool}}"),
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


_RUNS = 'outlast_actor_runs_total{namespace="$namespace"}'
_BOOKED = 'outlast_spend_usd_count{namespace="$namespace"}'
_REFUSED = 'outlast_spend_refusals_total{namespace="$namespace"}'
_FOLLOWED = 'temporal_worker_task_slots_used{namespace="$namespace", task_queue="outlast-runs"}'
_START_RUN = '{namespace="$namespace", activity_type="start_run"}'
_STARTS = {
    "first step": f"temporal_local_activity_execution_latency_seconds{_START_RUN}",
    "activity": f"temporal_activity_execution_latency_seconds{_START_RUN}",
}
_RUNNING = workflows(
    "Runs that may be costing money", "WorkflowType = 'ToolCallWorkflow' AND ExecutionStatus = 'Running'"
)
_GUARDED = workflows(
    "Runs under guard after the answer", "OutlastTaskStatus = 'completed' AND ExecutionStatus = 'Running'"
)


def _events(event: str) -> str:
    return increase(f'outlast_actor_runs_total{{namespace="$namespace", event="{event}"}}') + " or vector(0)"


ACTOR_RUNS = Board(
    uid="outlast-actor-runs",
    title="Outlast / Actor runs and spend",
    description="Runs on the platform, and the spending that the ledgers recorded.",
    rows=(
        row(
            "In the time shown",
            number("Started", "Runs that were started.", Query(_events("started")), _RUNNING),
            number(
                "Adopted",
                "Runs whose start was accepted but whose response was lost. They were found again, not paid twice.",
                Query(_events("adopted")),
                runbook("actor-runs"),
                limits=Limits.above(1, 10),
            ),
            number(
                "Taken over",
                "Runs followed by another worker after theirs crashed, failed or stopped (failover).",
                Query(_events("taken_over")),
                [runbook("actor-runs"), runbook("workers")],
                limits=Limits.above(1, 50),
            ),
            number(
                "Aborts",
                "Requests to abort a run: cancelled tasks, budgets, deadlines.",
                Query(_events("abort_requested")),
                workflows("Cancelled tasks", "OutlastTaskStatus = 'cancelled'"),
            ),
            number(
                "Spent",
                "US dollars that the ledgers recorded for runs and models.",
                Query(increase(_SPENT) + " or vector(0)"),
                runbook("money"),
                Unit.USD,
            ),
            number(
                "Refused by a spending limit",
                "Calls that a spending limit refused before anything was started.",
                Query(increase(_REFUSED) + " or vector(0)"),
                runbook("money"),
                limits=Limits.above(1),
            ),
        ),
        row(
            "Runs",
            graph(
                "Events",
                "Per second: started, adopted, taken over, abort requested.",
                Query(rate(_RUNS, "event"), "{{event}}"),
                [runbook("actor-runs"), _RUNNING],
                Unit.PER_SECOND,
            ),
            graph(
                "Runs followed now",
                "By all workers. Runs of completed tasks are still followed until they end.",
                Query(f"sum({_FOLLOWED})", "followed"),
                [_RUNNING, _GUARDED],
            ),
            graph(
                "Time of a start",
                "Until the platform confirmed the run, per attempt: in the first step of its task, "
                "which takes at most five seconds, or by the activity that continues after that time.",
                [
                    Query(quantile(level, series), f"p{level * 100:g}, {where}")
                    for where, series in _STARTS.items()
                    for level in (0.5, 0.95)
                ],
                runbook("actor-runs"),
                Unit.SECONDS,
                limits=Limits.above(5, 30),
            ),
        ),
        row(
            "Money",
            stacked(
                "Per hour by payer",
                "US dollars per hour: `operator`, `caller` (its own token) or `payment` (Skyfire).",
                Query(f"3600 * {rate(_SPENT, 'payer')}", "{{payer}}"),
                runbook("money"),
                Unit.USD,
            ),
            graph(
                "Per entry",
                "Mean US dollars per ledger entry, for runs and models.",
                Query(f"{rate(_SPENT, 'kind')} / ({rate(_BOOKED, 'kind')} > 0)", "{{kind}}"),
                runbook("money"),
                Unit.USD,
            ),
            graph(
                "Refused by a spending limit",
                "Calls per second, by limit.",
                Query(rate(_REFUSED, "cap") + " or vector(0)", "{{cap}}"),
                runbook("money"),
                Unit.PER_SECOND,
            ),
        ),
    ),
)
