"""Answers to callers: the overview, tools, and runs on the platform with their cost."""

from outlast.deploy.grafana import board

_CALLS = 'outlast_tool_calls_total{namespace="$namespace"}'
_FAILED = 'outlast_tool_calls_total{namespace="$namespace", outcome="failed"}'
_DURATION = 'outlast_tool_call_duration_seconds{namespace="$namespace"}'
_SPENT = 'outlast_spend_usd_sum{namespace="$namespace"}'
_REQUESTS = "outlast_http_requests_total"
_OPEN = board.workflows("Open tasks", "WorkflowType = 'ToolCallWorkflow' AND ExecutionStatus = 'Running'")
_FAILED_TASKS = board.workflows("Failed tasks", "OutlastTaskStatus = 'failed'")

OVERVIEW = board.Board(
    uid="outlast-overview",
    title="Outlast / Overview",
    description="Answers to callers: rate, duration, and cost.",
    rows=(
        board.row(
            "Now",
            board.number(
                "Tool calls",
                "Calls whose handler returned, per second.",
                board.Query(board.rate(_CALLS)),
                _OPEN,
                board.Unit.PER_SECOND,
            ),
            board.number(
                "Calls that failed",
                "Share of calls that answered with an error. Some errors are caused by callers.",
                board.Query(board.share(_FAILED, _CALLS)),
                [board.runbook("tool-failures"), _FAILED_TASKS],
                board.Unit.SHARE,
                limits=board.Limits.above(0.1, 0.3),
            ),
            board.number(
                "Server errors",
                "Share of HTTP answers with status 5xx.",
                board.Query(board.share('outlast_http_requests_total{status=~"5.."}', _REQUESTS)),
                board.runbook("api-errors"),
                board.Unit.SHARE,
                limits=board.Limits.above(0.001, 0.05),
            ),
            board.number(
                "Open tasks",
                "Tasks whose workflow has not ended: running, or waiting for a run or a person.",
                board.Query("max(outlast_open_tasks)"),
                [_OPEN, board.runbook("slow-calls")],
            ),
            board.number(
                "Workers",
                "Worker processes that poll for tool calls. At 0, all tasks wait; none is lost.",
                board.Query(
                    'count(temporal_num_pollers{namespace="$namespace", task_queue="outlast-tools", '
                    'poller_type="workflow_task"} > 0) or vector(0)'
                ),
                board.runbook("workers"),
                limits=board.Limits.below(1, 1),
            ),
            board.number(
                "Spent",
                "US dollars that the ledgers recorded in the time shown.",
                board.Query(board.increase(_SPENT) + " or vector(0)"),
                board.runbook("money"),
                board.Unit.USD,
            ),
        ),
        board.row(
            "Rate, errors, duration",
            board.stacked(
                "Calls by outcome",
                "Calls whose handler returned, per second.",
                board.Query(board.rate(_CALLS, "outcome"), "{{outcome}}"),
                [_FAILED_TASKS, board.runbook("tool-failures")],
            ),
            board.graph(
                "Duration of quick calls",
                "Calls that start no run, from start to answer, including the wait for a worker.",
                [
                    board.Query(
                        board.quantile(level, _DURATION.replace("}", ', executor="none"}')), f"p{level * 100:g}"
                    )
                    for level in (0.5, 0.95, 0.99)
                ],
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
                limits=board.Limits.above(1, 5),
            ),
            board.stacked(
                "HTTP requests by status",
                "Answers of the API processes, per second.",
                board.Query(board.rate(_REQUESTS, "status"), "{{status}}"),
                board.runbook("api-errors"),
            ),
        ),
        board.row(
            "Backlog and money",
            board.graph(
                "Waiting for a worker",
                "Tasks in Temporal's queues that no worker has taken yet, by queue. Normally near 0.",
                board.Query(
                    'sum by (taskqueue) (approximate_backlog_count{namespace="$namespace", taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [board.runbook("slow-calls"), board.runbook("workers")],
                limits=board.Limits.above(100, 1000),
            ),
            board.graph(
                "Open tasks",
                "Open tasks of all callers, and tasks queued by their caller's concurrency limit.",
                [
                    board.Query("max(outlast_open_tasks)", "open"),
                    board.Query("sum(max by (caller) (outlast_queued_tasks)) or vector(0)", "queued"),
                ],
                [_OPEN, board.runbook("limits")],
            ),
            board.stacked(
                "Money per hour",
                "US dollars per hour, by kind and payer.",
                board.Query(f"3600 * {board.rate(_SPENT, 'kind, payer')}", "{{kind}}, {{payer}}"),
                board.runbook("money"),
                board.Unit.USD,
            ),
        ),
        board.row(
            "The API",
            board.graph(
                "Time until an answer begins",
                "p95 by route. Requests with `wait` include the wait.",
                board.Query(board.quantile(0.95, "outlast_http_request_duration_seconds", "route"), "{{route}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
            ),
            board.graph(
                "Refused because of a limit",
                "Requests and connections per second, by limit.",
                board.Query(board.rate("outlast_limited_total", "limit") + " or vector(0)", "{{limit}}"),
                board.runbook("limits"),
                board.Unit.PER_SECOND,
                limits=board.Limits.above(1),
            ),
            board.graph(
                "Share of each limit in use",
                "For the caller that is closest to the limit.",
                board.Query("max by (limit) (outlast_limit_used_ratio)", "{{limit}}"),
                board.runbook("limits"),
                board.Unit.SHARE,
                limits=board.Limits.above(0.7, 0.9),
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
_ALL_TASKS = board.workflows("All tasks", "WorkflowType = 'ToolCallWorkflow'")

TOOLS = board.Board(
    uid="outlast-tools",
    title="Outlast / Tools",
    description="Calls of each tool. All direct Actor tools are counted as `actor-tool`.",
    variables=(board.Variable("tool", "Tool", 'outlast_tool_calls_total{namespace="$namespace"}', "tool"),),
    rows=(
        board.row(
            "Calls",
            board.stacked(
                "Calls",
                "Calls whose handler returned, per second.",
                board.Query(board.rate(_TOOL_CALLS, "tool"), "{{tool}}"),
                _ALL_TASKS,
            ),
            board.graph(
                "Share that failed",
                "Calls that answered with an error.",
                board.Query(board.share(_TOOL_FAILED, _TOOL_CALLS, "tool"), "{{tool}}"),
                [board.runbook("tool-failures"), _FAILED_TASKS],
                board.Unit.SHARE,
                limits=board.Limits.above(0.1, 0.3),
            ),
            board.graph(
                "Share that was cancelled",
                "Cancelled by callers, or because a budget or deadline was exceeded.",
                board.Query(board.share(_TOOL_CANCELLED, _TOOL_CALLS, "tool"), "{{tool}}"),
                board.workflows("Cancelled tasks", "OutlastTaskStatus = 'cancelled'"),
                board.Unit.SHARE,
            ),
        ),
        board.row(
            "Duration",
            board.graph(
                "p50",
                "From the start of a call until its handler returned, including the wait for a worker.",
                board.Query(board.quantile(0.5, _TOOL_DURATION, "tool"), "{{tool}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
            ),
            board.graph(
                "p95",
                "From the start of a call until its handler returned, including the wait for a worker.",
                board.Query(board.quantile(0.95, _TOOL_DURATION, "tool"), "{{tool}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
            ),
            board.graph(
                "Mean by executor",
                "`sync` calls wait for their run, `async` calls return when it has started, `none` start no run.",
                board.Query(board.mean(_TOOL_DURATION, "executor"), "{{executor}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
            ),
        ),
        board.row(
            "Answers",
            board.stacked(
                "Text answered",
                "Bytes of text per second that handlers returned. Larger outputs are stored.",
                board.Query(board.rate(_BYTES, "tool"), "{{tool}}"),
                board.runbook("output-store"),
                board.Unit.BYTES_PER_SECOND,
            ),
            board.graph(
                "Text per call",
                "Mean size of the text that a model reads.",
                board.Query(f"{board.rate(_BYTES, 'tool')} / ({board.rate(_TOOL_CALLS, 'tool')} > 0)", "{{tool}}"),
                board.runbook("output-store"),
                board.Unit.BYTES,
            ),
            board.stacked(
                "Tool masks",
                "Masks resolved per second in API and worker, by outcome.",
                board.Query(
                    board.rate("outlast_tool_mask_resolutions_total", "outcome") + " or vector(0)", "{{outcome}}"
                ),
                board.runbook("dynamic-tools", "Runbook: tool masks"),
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
_RUNNING = board.workflows(
    "Runs that may be costing money", "WorkflowType = 'ToolCallWorkflow' AND ExecutionStatus = 'Running'"
)
_GUARDED = board.workflows(
    "Runs under guard after the answer", "OutlastTaskStatus = 'completed' AND ExecutionStatus = 'Running'"
)


def _events(event: str) -> str:
    return board.increase(f'outlast_actor_runs_total{{namespace="$namespace", event="{event}"}}') + " or vector(0)"


ACTOR_RUNS = board.Board(
    uid="outlast-actor-runs",
    title="Outlast / Actor runs and spend",
    description="Runs on the platform, and the spending that the ledgers recorded.",
    rows=(
        board.row(
            "In the time shown",
            board.number("Started", "Runs that were started.", board.Query(_events("started")), _RUNNING),
            board.number(
                "Adopted",
                "Runs whose start was accepted but whose response was lost. They were found again, not paid twice.",
                board.Query(_events("adopted")),
                board.runbook("actor-runs"),
                limits=board.Limits.above(1, 10),
            ),
            board.number(
                "Taken over",
                "Runs followed by another worker after theirs crashed, failed or stopped (failover).",
                board.Query(_events("taken_over")),
                [board.runbook("actor-runs"), board.runbook("workers")],
                limits=board.Limits.above(1, 50),
            ),
            board.number(
                "Aborts",
                "Requests to abort a run: cancelled tasks, budgets, deadlines.",
                board.Query(_events("abort_requested")),
                board.workflows("Cancelled tasks", "OutlastTaskStatus = 'cancelled'"),
            ),
            board.number(
                "Spent",
                "US dollars that the ledgers recorded for runs and models.",
                board.Query(board.increase(_SPENT) + " or vector(0)"),
                board.runbook("money"),
                board.Unit.USD,
            ),
            board.number(
                "Refused by a spending limit",
                "Calls that a spending limit refused before anything was started.",
                board.Query(board.increase(_REFUSED) + " or vector(0)"),
                board.runbook("money"),
                limits=board.Limits.above(1),
            ),
        ),
        board.row(
            "Runs",
            board.graph(
                "Events",
                "Per second: started, adopted, taken over, abort requested.",
                board.Query(board.rate(_RUNS, "event"), "{{event}}"),
                [board.runbook("actor-runs"), _RUNNING],
                board.Unit.PER_SECOND,
            ),
            board.graph(
                "Runs followed now",
                "By all workers. Runs of completed tasks are still followed until they end.",
                board.Query(f"sum({_FOLLOWED})", "followed"),
                [_RUNNING, _GUARDED],
            ),
            board.graph(
                "Time of a start",
                "Until the platform confirmed the run, per attempt: in the first step of its task, "
                "which takes at most five seconds, or by the activity that continues after that time.",
                [
                    board.Query(board.quantile(level, series), f"p{level * 100:g}, {where}")
                    for where, series in _STARTS.items()
                    for level in (0.5, 0.95)
                ],
                board.runbook("actor-runs"),
                board.Unit.SECONDS,
                limits=board.Limits.above(5, 30),
            ),
        ),
        board.row(
            "Money",
            board.stacked(
                "Per hour by payer",
                "US dollars per hour: `operator`, `caller` (its own token) or `payment` (Skyfire).",
                board.Query(f"3600 * {board.rate(_SPENT, 'payer')}", "{{payer}}"),
                board.runbook("money"),
                board.Unit.USD,
            ),
            board.graph(
                "Per entry",
                "Mean US dollars per ledger entry, for runs and models.",
                board.Query(f"{board.rate(_SPENT, 'kind')} / ({board.rate(_BOOKED, 'kind')} > 0)", "{{kind}}"),
                board.runbook("money"),
                board.Unit.USD,
            ),
            board.graph(
                "Refused by a spending limit",
                "Calls per second, by limit.",
                board.Query(board.rate(_REFUSED, "cap") + " or vector(0)", "{{cap}}"),
                board.runbook("money"),
                board.Unit.PER_SECOND,
            ),
        ),
    ),
)
