"""The Temporal server: requests, errors, waiting times, database, billable actions."""

from outlast.deploy.grafana.board import Board, Limits, Query, Unit, graph, quantile, rate, row, runbook, stacked

_LINKS = [runbook("temporal-server")]
_ERRORS = 'service_error_with_type{error_type!~".*(NotFound|AlreadyStarted|Canceled|InvalidArgument).*"}'

TEMPORAL_SERVER = Board(
    uid="outlast-temporal-server",
    title="Outlast / Temporal server",
    description="Metrics of the server. For Temporal Cloud, use its dashboards instead.",
    rows=(
        row(
            "Requests",
            stacked(
                "Requests",
                "To the frontend, per second and operation.",
                Query(rate('service_requests{service_name="frontend"}', "operation"), "{{operation}}"),
                _LINKS,
            ),
            graph(
                "Time of a request",
                "p95 of requests that start, signal and complete workflows, without polls, which wait.",
                Query(
                    quantile(
                        0.95,
                        'service_latency{service_name="frontend", operation=~"StartWorkflowExecution|'
                        'SignalWorkflowExecution|RespondWorkflowTaskCompleted|RespondActivityTaskCompleted"}',
                        "operation",
                    ),
                    "{{operation}}",
                ),
                _LINKS,
                Unit.SECONDS,
                limits=Limits.above(0.5, 2),
            ),
            graph(
                "Errors",
                "Per second and kind, without errors that are part of normal work.",
                Query(rate(_ERRORS, "error_type") + " or vector(0)", "{{error_type}}"),
                _LINKS,
                Unit.PER_SECOND,
                limits=Limits.above(1, 10),
            ),
        ),
        row(
            "Queues",
            graph(
                "Backlog",
                "Tasks that no worker has taken yet, by queue.",
                Query(
                    'sum by (taskqueue) (approximate_backlog_count{namespace="$namespace", taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [runbook("workers"), *_LINKS],
                limits=Limits.above(100, 1000),
            ),
            graph(
                "Age of the backlog",
                "Age of the oldest waiting task, by queue.",
                Query(
                    'max by (taskqueue) (approximate_backlog_age_seconds{namespace="$namespace", '
                    'taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [runbook("workers"), *_LINKS],
                Unit.SECONDS,
                limits=Limits.above(5, 60),
            ),
            stacked(
                "Billable actions",
                "Per second and kind, as Temporal Cloud counts them.",
                Query(rate('action{namespace="$namespace"}', "action_type"), "{{action_type}}"),
                _LINKS,
            ),
        ),
        row(
            "Database and memory",
            stacked(
                "Database requests",
                "Per second and service.",
                Query(rate("persistence_requests", "service_name"), "{{service_name}}"),
                _LINKS,
            ),
            graph(
                "Time of a database request",
                "p95 by service.",
                Query(quantile(0.95, "persistence_latency", "service_name"), "{{service_name}}"),
                _LINKS,
                Unit.SECONDS,
                limits=Limits.above(0.1, 0.5),
            ),
            graph(
                "Memory",
                "Heap in use, by service. In the embedded server, all services are one process.",
                Query("max by (service_name) (memory_heapinuse)", "{{service_name}}"),
                _LINKS,
                Unit.BYTES,
            ),
        ),
    ),
)
