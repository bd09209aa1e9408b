"""State of the service: rate, errors, duration, backlog, open tasks and spending."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    graph,
    increase,
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
