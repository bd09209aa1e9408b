"""The output store and its sweeps, the audit log, the policy file."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    graph,
    increase,
    quantile,
    rate,
    row,
    runbook,
    stacked,
    workflows,
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
