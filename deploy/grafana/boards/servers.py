"""Workers and their queues, the output store and audit log, and the Temporal server."""

from outlast.deploy.grafana import board

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
_STUCK = board.workflows("Stuck tasks", "TemporalReportedProblems IS NOT NULL")

WORKERS = board.Board(
    uid="outlast-workers",
    title="Outlast / Workers and queues",
    description="Metrics of the Temporal SDK in each worker process.",
    variables=(board.Variable("queue", "Task queue", 'temporal_num_pollers{task_queue=~"outlast-.*"}', "task_queue"),),
    rows=(
        board.row(
            "Capacity",
            board.graph(
                "Pollers",
                "By queue and kind. At 0, the queue's tasks wait.",
                board.Query(
                    f"sum by (task_queue, poller_type) (temporal_num_pollers{{{_OF}}})",
                    "{{task_queue}} {{poller_type}}",
                ),
                board.runbook("workers"),
                limits=board.Limits.below(1, 1),
            ),
            board.graph(
                "Share of slots in use",
                "By queue and kind, for all workers together. At 100%, tasks wait: add a worker or slots.",
                board.Query(
                    f"sum by (task_queue, worker_type) ({_USED}) / "
                    f"sum by (task_queue, worker_type) ({_USED} + {_FREE})",
                    "{{task_queue}} {{worker_type}}",
                ),
                board.runbook("workers"),
                board.Unit.SHARE,
                limits=board.Limits.above(0.7, 0.95),
            ),
            board.graph(
                "Free slots",
                "Lowest number in any worker process, by queue and kind.",
                board.Query(f"min by (task_queue, worker_type) ({_FREE})", "{{task_queue}} {{worker_type}}"),
                board.runbook("workers"),
                limits=board.Limits.below(10, 1),
            ),
        ),
        board.row(
            "Waiting",
            board.graph(
                "Workflow tasks until they start",
                "p95 from the server's queue to a worker.",
                board.Query(board.quantile(0.95, _WORKFLOW_WAIT, "task_queue"), "{{task_queue}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
                limits=board.Limits.above(0.2, 1),
            ),
            board.graph(
                "Activities until they start",
                "p95 from the server's queue to a worker.",
                board.Query(board.quantile(0.95, _ACTIVITY_WAIT, "task_queue"), "{{task_queue}}"),
                board.runbook("slow-calls"),
                board.Unit.SECONDS,
                limits=board.Limits.above(0.2, 1),
            ),
            board.graph(
                "Share of polls that found work at once",
                "Workflow and activity tasks that the server passed on without storing them first.",
                board.Query(
                    'sum by (task_type) (rate(poll_success_sync{namespace="$namespace", '
                    'taskqueue=~"outlast_.*|__omitted__"}[$__rate_interval])) / '
                    'sum by (task_type) (rate(poll_success{namespace="$namespace", '
                    'taskqueue=~"outlast_.*|__omitted__"}[$__rate_interval]) > 0)',
                    "{{task_type}}",
                ),
                board.runbook("workers"),
                board.Unit.SHARE,
                limits=board.Limits.below(0.99, 0.9),
            ),
        ),
        board.row(
            "Work",
            board.graph(
                "Sticky cache",
                "Workflows that worker processes keep in memory.",
                board.Query(f"sum(temporal_sticky_cache_size{{{_OF}}})", "cached"),
                board.runbook("workers"),
            ),
            board.graph(
                "Sticky cache misses",
                "Share of workflow tasks whose workflow was evicted from memory: its history is read again.",
                board.Query(board.share(_MISS, _HIT), "missed"),
                board.runbook("workers"),
                board.Unit.SHARE,
                limits=board.Limits.above(0.2, 0.5),
            ),
            board.stacked(
                "Activities per second",
                "Ended attempts per second, by kind.",
                board.Query(
                    board.rate(f"temporal_activity_execution_latency_seconds_count{{{_OF}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                board.runbook("slow-calls"),
            ),
            board.stacked(
                "Quick reads per second",
                "Reads within a workflow task. Slow reads, and reads without a free slot, became normal activities.",
                board.Query(board.rate(_LOCAL_READS, "outcome"), "{{outcome}}"),
                board.runbook("slow-calls"),
            ),
        ),
        board.row(
            "Failures",
            board.graph(
                "Activity attempts that failed",
                "Per second. Most are retried and not visible to callers.",
                board.Query(board.rate(_FAILED, "activity_type") + " or vector(0)", "{{activity_type}}"),
                board.runbook("tool-failures"),
                board.Unit.PER_SECOND,
            ),
            board.graph(
                "Workflow tasks that failed",
                "Per second. Above 0 means a defect, or code that does not match recorded histories.",
                board.Query(board.rate(_WORKFLOW_FAILED, "workflow_type") + " or vector(0)", "{{workflow_type}}"),
                [board.runbook("stuck-tasks"), _STUCK],
                board.Unit.PER_SECOND,
                limits=board.Limits.above(bad=0.001),
            ),
            board.graph(
                "Stuck workflows",
                "Workflows whose step fails repeatedly, and workflows ended for this reason, in the time shown.",
                [
                    board.Query(
                        'sum(max by (workflow) (outlast_stuck_workflows{namespace="$namespace"})) or vector(0)', "stuck"
                    ),
                    board.Query(
                        board.increase('outlast_stuck_workflows_ended_total{namespace="$namespace"}') + " or vector(0)",
                        "ended",
                    ),
                ],
                [board.runbook("stuck-tasks"), _STUCK],
                limits=board.Limits.above(bad=1),
            ),
        ),
    ),
)


_NS = 'namespace="$namespace"'
_OUTPUTS = f'{_NS}, task_queue="outlast-outputs"'
_SWEEPS = board.workflows("Sweeps", "WorkflowType = 'RetentionWorkflow'")

STORES = board.Board(
    uid="outlast-stores",
    title="Outlast / Stores and sweeps",
    description="Outputs that are stored, restored and removed; audit records.",
    rows=(
        board.row(
            "Outputs",
            board.stacked(
                "Operations",
                "Activities on stored outputs per second: store, restore, summarise, sweep.",
                board.Query(
                    board.rate(f"temporal_activity_execution_latency_seconds_count{{{_OUTPUTS}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                board.runbook("output-store"),
            ),
            board.graph(
                "Time of an operation",
                "p95 per attempt.",
                board.Query(
                    board.quantile(0.95, f"temporal_activity_execution_latency_seconds{{{_OUTPUTS}}}", "activity_type"),
                    "{{activity_type}}",
                ),
                board.runbook("output-store"),
                board.Unit.SECONDS,
                limits=board.Limits.above(10, 60),
            ),
            board.graph(
                "Attempts that failed",
                "Per second. The store does not answer, is full, or rejects the credentials.",
                board.Query(
                    board.rate(f"temporal_activity_execution_failed_total{{{_OUTPUTS}}}", "activity_type")
                    + " or vector(0)",
                    "{{activity_type}}",
                ),
                board.runbook("output-store"),
                board.Unit.PER_SECOND,
                limits=board.Limits.above(bad=0.001),
            ),
        ),
        board.row(
            "Sweeps",
            board.graph(
                "Objects",
                "Examined and removed, in the time shown.",
                board.Query(board.increase(f"outlast_swept_objects_total{{{_NS}}}", "event"), "{{event}}"),
                [board.runbook("output-store"), _SWEEPS],
            ),
            board.graph(
                "Freed",
                "Bytes in the time shown.",
                board.Query(board.increase(f"outlast_swept_bytes_total{{{_NS}}}"), "freed"),
                [board.runbook("output-store"), _SWEEPS],
                board.Unit.BYTES,
            ),
            board.graph(
                "Text answered instead of stored",
                "Bytes per second that handlers returned to callers.",
                board.Query(board.rate(f"outlast_result_bytes_total{{{_NS}}}"), "answered"),
                board.runbook("output-store"),
                board.Unit.BYTES_PER_SECOND,
            ),
        ),
        board.row(
            "Records",
            board.graph(
                "Audit records",
                "Per second. Failed records are missing in the log.",
                board.Query(board.rate("outlast_audit_records_total", "outcome") + " or vector(0)", "{{outcome}}"),
                board.runbook("api-errors"),
                board.Unit.PER_SECOND,
            ),
            board.graph(
                "Policy file",
                "Reloads in the time shown. After an error the previous policy stays in force.",
                board.Query(board.increase("outlast_policy_loads_total", "outcome") + " or vector(0)", "{{outcome}}"),
                board.runbook("limits"),
            ),
            board.graph(
                "Memory",
                "Of the API processes.",
                board.Query('process_resident_memory_bytes{job="outlast-api"}', "{{instance}}"),
                board.runbook("api-errors"),
                board.Unit.BYTES,
            ),
        ),
    ),
)


_LINKS = [board.runbook("temporal-server")]
_ERRORS = 'service_error_with_type{error_type!~".*(NotFound|AlreadyStarted|Canceled|InvalidArgument).*"}'

TEMPORAL_SERVER = board.Board(
    uid="outlast-temporal-server",
    title="Outlast / Temporal server",
    description="Metrics of the server. For Temporal Cloud, use its dashboards instead.",
    rows=(
        board.row(
            "Requests",
            board.stacked(
                "Requests",
                "To the frontend, per second and operation.",
                board.Query(board.rate('service_requests{service_name="frontend"}', "operation"), "{{operation}}"),
                _LINKS,
            ),
            board.graph(
                "Time of a request",
                "p95 of requests that start, signal and complete workflows, without polls, which wait.",
                board.Query(
                    board.quantile(
                        0.95,
                        'service_latency{service_name="frontend", operation=~"StartWorkflowExecution|'
                        'SignalWorkflowExecution|RespondWorkflowTaskCompleted|RespondActivityTaskCompleted"}',
                        "operation",
                    ),
                    "{{operation}}",
                ),
                _LINKS,
                board.Unit.SECONDS,
                limits=board.Limits.above(0.5, 2),
            ),
            board.graph(
                "Errors",
                "Per second and kind, without errors that are part of normal work.",
                board.Query(board.rate(_ERRORS, "error_type") + " or vector(0)", "{{error_type}}"),
                _LINKS,
                board.Unit.PER_SECOND,
                limits=board.Limits.above(1, 10),
            ),
        ),
        board.row(
            "Queues",
            board.graph(
                "Backlog",
                "Tasks that no worker has taken yet, by queue.",
                board.Query(
                    'sum by (taskqueue) (approximate_backlog_count{namespace="$namespace", taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [board.runbook("workers"), *_LINKS],
                limits=board.Limits.above(100, 1000),
            ),
            board.graph(
                "Age of the backlog",
                "Age of the oldest waiting task, by queue.",
                board.Query(
                    'max by (taskqueue) (approximate_backlog_age_seconds{namespace="$namespace", '
                    'taskqueue=~"outlast_.*"})',
                    "{{taskqueue}}",
                ),
                [board.runbook("workers"), *_LINKS],
                board.Unit.SECONDS,
                limits=board.Limits.above(5, 60),
            ),
            board.stacked(
                "Billable actions",
                "Per second and kind, as Temporal Cloud counts them.",
                board.Query(board.rate('action{namespace="$namespace"}', "action_type"), "{{action_type}}"),
                _LINKS,
            ),
        ),
        board.row(
            "Database and memory",
            board.stacked(
                "Database requests",
                "Per second and service.",
                board.Query(board.rate("persistence_requests", "service_name"), "{{service_name}}"),
                _LINKS,
            ),
            board.graph(
                "Time of a database request",
                "p95 by service.",
                board.Query(board.quantile(0.95, "persistence_latency", "service_name"), "{{service_name}}"),
                _LINKS,
                board.Unit.SECONDS,
                limits=board.Limits.above(0.1, 0.5),
            ),
            board.graph(
                "Memory",
                "Heap in use, by service. In the embedded server, all services are one process.",
                board.Query("max by (service_name) (memory_heapinuse)", "{{service_name}}"),
                _LINKS,
                board.Unit.BYTES,
            ),
        ),
    ),
)
