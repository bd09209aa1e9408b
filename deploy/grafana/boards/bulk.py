"""Batches, schedules, reused answers, and webhooks."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    graph,
    increase,
    rate,
    row,
    runbook,
    share,
    stacked,
    workflows,
)

_NS = 'namespace="$namespace"'
_BATCHES = workflows("Open batches", "WorkflowType = 'BatchWorkflow' AND ExecutionStatus = 'Running'")
_FIRINGS = workflows("Firings", "WorkflowType = 'ScheduleFiringWorkflow'")
_DELIVERIES = workflows("Deliveries", "WorkflowType = 'WebhookDeliveryWorkflow'")
_NO_ANSWER = 'outcome=~"unreachable|timeout"'

BULK = Board(
    uid="outlast-bulk",
    title="Outlast / Batches, schedules, webhooks",
    description="Bulk work: items of batches, firings of schedules, reused answers, events for webhooks.",
    rows=(
        row(
            "Batches",
            stacked(
                "Items that ended",
                "Per second, over all batches.",
                Query(rate(f"outlast_batch_items_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [runbook("bulk"), _BATCHES],
            ),
            graph(
                "Share of items that failed",
                "A batch stops when one of its stop conditions is met.",
                Query(
                    share(
                        f'outlast_batch_items_total{{{_NS}, outcome="failed"}}', f"outlast_batch_items_total{{{_NS}}}"
                    )
                ),
                [runbook("bulk"), _BATCHES],
                Unit.SHARE,
                limits=Limits.above(0.1, 0.3),
            ),
            graph(
                "Batches that ended",
                "In the time shown: completed, cancelled or stopped, with the reason.",
                Query(increase(f"outlast_batches_total{{{_NS}}}", "status, reason"), "{{status}} {{reason}}"),
                [runbook("bulk"), _BATCHES],
            ),
        ),
        row(
            "Schedules and reuse",
            graph(
                "Firings of schedules",
                "In the time shown. Missed firings could not be started within their window.",
                Query(increase(f"outlast_firings_total{{{_NS}}}", "status"), "{{status}}"),
                [runbook("bulk"), _FIRINGS],
            ),
            graph(
                "Share of items answered by an identical call",
                "For all batches. These items start nothing and cost nothing.",
                Query(
                    share(f'outlast_batch_items_total{{{_NS}, reused="true"}}', f"outlast_batch_items_total{{{_NS}}}")
                ),
                [runbook("bulk"), _BATCHES],
                Unit.SHARE,
            ),
            stacked(
                "Single calls with reuse",
                "Per second: answered by a finished task, joined to a running one, or started.",
                Query(rate("outlast_reused_calls_total", "outcome"), "{{outcome}}"),
                runbook("bulk"),
            ),
        ),
        row(
            "Webhooks",
            graph(
                "Events",
                "In the time shown: delivered, failed after all attempts, or dropped with their webhook.",
                Query(increase(f"outlast_webhook_deliveries_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [runbook("bulk"), _DELIVERIES],
            ),
            stacked(
                "Attempts",
                "Per second, by outcome.",
                Query(rate(f"outlast_webhook_attempts_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [runbook("bulk"), _DELIVERIES],
            ),
            graph(
                "Share of attempts without an answer",
                "Unreachable or too slow. Near 1 for all receivers, outgoing connections fail.",
                Query(
                    share(
                        f"outlast_webhook_attempts_total{{{_NS}, {_NO_ANSWER}}}",
                        f"outlast_webhook_attempts_total{{{_NS}}}",
                    )
                ),
                [runbook("bulk"), _DELIVERIES],
                Unit.SHARE,
                limits=Limits.above(0.2, 0.5),
            ),
        ),
    ),
)
