"""Workers and their queues, the output store and audit log, and the Temporal server."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    Variable,
    graph,
    increase,
    quantile,
    rate,
    row,
    runbook,
    share,
    stacked,
    workflows,
)

_OF = 'namespace="$namespace", task_queue=~"$queue"'
_FREE = f"temporal_worker_task_slots_available{{{_OF}}}"
_USED = f"temporal_worker_task_slots_used{{{_OF}}}"
_WORKFLOW_WAIT = f"temporal_workflow_task_schedule_to_start_latency_seconds{{{_OF}}}"
_ACTIVITY_WAIT = f"temporal_activity_schedule_to_start_latency_seconds{{{_OF}}}"
_HIT = f"temporal_sticky_cache_hit_total{{{_OF}}}"
_MISS = f"temporal_sticky_cache_miss_total{{{_OF}}}"
_FAILED = f"temporal_activity_execution_failed_total{{{_OF}}}"
_WORKFLOW_FAILED = f"temporal_workflow_task_execution_failed_total{{{_OF}}}"
_LOCAL_READS = f"outlast_local_reads_total{{{_OF}}}"
_STUCK = workflows("Stuck tasks", "TemporalReportedProblems IS NOT NULL")

WORKERS = Board(
    uid="outlast-workers",
    title="Outlast / Workers and queues",
    description="Metrics of the Temporal SDK in each worker process.",
    variables=(Variable("queue", "Task queue", 'temporal_num_pollers{task_queue=~"outlast-.*"}', "task_queue"),),
    rows=(
        row(
            "Capacity",
            graph(
                "Pollers",
                "By queue and kind. At 0, the queue's tasks wait.",
                Query(
                    f"sum by (task_queue, poller_type) (temporal_num_pollers{{{_OF}}})",
                    "{{task_queue}} {{poller_type}}",
                ),
                runbook("workers"),
                limits=Limits.below(1, 1),
            ),
            graph(
                "Share of slots in use",
                "By queue and kind, for all workers together. At 100%, tasks wait: add a worker or slots.",
                Query(
                    f"sum by (task_queue, worker_type) ({_USED}) / "
                    f"sum by (task_queue, worker_type) ({_USED} + {_FREE})",
                    "{{task_queue}} {{worker_type}}",
                ),
                runbook("workers"),
                Unit.SHARE,
                limits=Limits.above(0.7, 0.95),
            ),
            graph(
                "Free slots",
                "Lowest number in any worker process, by queue and kind.",
                Query(f"min by (task_queue, worker_type) ({_FREE})", "{{task_queue}} {{worker_type}}"),
                runbook("workers"),
                limits=Limits.below(10, 1),
            ),
        ),
        row(
            "Waiting",
            graph(
                "Workflow tasks until they start",
                "p95 from the server's queue to a worker.",
                Query(quantile(0.95, _WORKFLOW_WAIT, "task_queue"), "{{task_queue}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
                limits=Limits.above(0.2, 1),
            ),
            graph(
                "Activities until they start",
                "p95 from the server's queue to a worker.",
                Query(quantile(0.95, _ACTIVITY_WAIT, "task_queue"), "{{task_queue}}"),
                runbook("slow-calls"),
                Unit.SECONDS,
                limits=Limits.above(0.2, 1),
            ),
            graph(
                "Share of polls that found work at once",
                "Workflow and activity tasks that the server passed on without storing them first.",
                Query(
                    'sum by (task_type) (rate(poll_success_sync{namespace="$namespace", '
                    'taskqueue=~"outlast_.*|__omitted__"}[$__rate_interval])) / '
                    'sum by (task_type) (rate(poll_success{namespace="$namespace", '
                    'taskqueue=~"outlast_.*|__omitted__"}[$__rate_interval]) > 0)',
                    "{{task_type}}",
                ),
                runbook("workers"),
                Unit.SHARE,
                limits=Limits.below(0.99, 0.9),
            ),
        ),
        row(
            "Work",
            graph(
                "Sticky cache",
                "Workflows that worker processes keep in memory.",
                Query(f"sum(temporal_sticky_cache_size{{{_OF}}})", "cached"),
                runbook("workers"),
            ),
            graph(
                "Sticky cache misses",
                "Share of workflow tasks whose workflow was evicted from memory: its history is read again.",
                Query(share(_MISS, _HIT), "missed"),
                runbook("workers"),
                Unit.SHARE,
                limits=Limits.above(0.2, 0.5),
            ),
            stacked(
                "Activities per second",
                "Ended attempts per second, by kind.",
                Query(
                    rate(f"temporal_activity_execution_latency_seconds_count{{{_OF}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                runbook("slow-calls"),
            ),
            stacked(
                "Quick reads per second",
                "Reads within a workflow task. Slow reads, and reads without a free slot, became normal activities.",
                Query(rate(_LOCAL_READS, "outcome"), "{{outcome}}"),
                runbook("slow-calls"),
            ),
        ),
        row(
            "Failures",
            graph(
                "Activity attempts that failed",
                "Per second. Most are retried and not visible to callers.",
                Query(rate(_FAILED, "activity_type") + " or vector(0)", "{{activity_type}}"),
                runbook("tool-failures"),
                Unit.PER_SECOND,
            ),
            graph(
                "Workflow tasks that failed",
                "Per second. Above 0 means a defect, or code that does not match recorded histories.",
                Query(rate(_WORKFLOW_FAILED, "workflow_type") + " or vector(0)", "{{workflow_type}}"),
                [runbook("stuck-tasks"), _STUCK],
                Unit.PER_SECOND,
                limits=Limits.above(bad=0.001),
            ),
            graph(
                "Stuck workflows",
                "Workflows whose step fails repeatedly, and workflows ended for this reason, in the time shown.",
                [
                    Query(
                        'sum(max by (workflow) (outlast_stuck_workflows{namespace="$namespace"})) or vector(0)', "stuck"
                    ),
                    Query(
                        increase('outlast_stuck_workflows_ended_total{namespace="$namespace"}') + " or vector(0)",
                        "ended",
                    ),
                ],
                [runbook("stuck-tasks"), _STUCK],
                limits=Limits.above(bad=1),
            ),
        ),
    ),
)


_NS = 'namespace="$namespace"'
_OUTPUTS = f'{_NS}, task_queue="outlast-outputs"'
_SWEEPS = workflows("Sweeps", "WorkflowType = 'RetentionWorkflow'")

STORES = Board(
    uid="outlast-stores",
    title="Outlast / Stores and sweeps",
    description="Outputs that are stored, restored and removed; audit records.",
    rows=(
        row(
            "Outputs",
            stacked(
                "Operations",
                "Activities on stored outputs per second: store, restore, summarise, sweep.",
                Query(
                    rate(f"temporal_activity_execution_latency_seconds_count{{{_OUTPUTS}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                runbook("output-store"),
            ),
            graph(
                "Time of an operation",
                "p95 per attempt.",
                Query(
                    quantile(0.95, f"temporal_activity_execution_latency_seconds{{{_OUTPUTS}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                runbook("output-store"),
                Unit.SECONDS,
                limits=Limits.above(10, 60),
            ),
            graph(
                "Attempts that failed",
                "Per second. The store does not answer, is full, or rejects the credentials.",
                Query(
                    rate(f"temporal_activity_execution_failed_total{{{_OUTPUTS}}}", "activity_type") + " or vector(0)",
                    "{{activity_type}}",
                ),
                runbook("output-store"),
                Unit.PER_SECOND,
                limits=Limits.above(bad=0.001),
            ),
        ),
        row(
            "Sweeps",
            graph(
                "Objects",
                "Examined and removed, in the time shown.",
                Query(increase(f"outlast_swept_objects_total{{{_NS}}}", "event"), "{{event}}"),
                [runbook("output-store"), _SWEEPS],
            ),
            graph(
                "Freed",
                "Bytes in the time shown.",
                Query(increase(f"outlast_swept_bytes_total{{{_NS}}}"), "freed"),
                [runbook("output-store"), _SWEEPS],
                Unit.BYTES,
            ),
            graph(
                "Text answered instead of stored",
                "Bytes per second that handlers returned to callers.",
                Query(rate(f"outlast_result_bytes_total{{{_NS}}}"), "answered"),
                runbook("output-store"),
                Unit.BYTES_PER_SECOND,
            ),
        ),
        row(
            "Records",
            graph(
                "Audit records",
                "Per second. Failed records are missing in the log.",
                Query(rate("outlast_audit_records_total", "outcome") + " or vector(0)", "{{outcome}}"),
                runbook("api-errors"),
                Unit.PER_SECOND,
            ),
            graph(
                "Policy file",
                "Reloads in the time shown. After an error the previous policy stays in force.",
                Query(increase("outlast_policy_loads_total", "outcome") + " or vector(0)", "{{outcome}}"),
                runbook("limits"),
            ),
            graph(
                "Memory",
                "Of the API processes.",
                Query('process_resident_memory_bytes{job="outlast-api"}', "{{instance}}"),
                runbook("api-errors"),
                Unit.BYTES,
            ),
        ),
    ),
)


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
