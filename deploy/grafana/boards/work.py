"""Batches, schedules, reused answers and webhooks; conversations with models."""

from outlast.deploy.grafana.board import (
    Board,
    Limits,
    Query,
    Unit,
    Variable,
    graph,
    increase,
    mean,
    quantile,
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


_TURNS = f"outlast_turns_total{{{_NS}}}"
_TURN_TIME = f"outlast_turn_duration_seconds{{{_NS}}}"
_OF = f'{_NS}, provider=~"$provider"'
_CALLS = f"outlast_model_calls_total{{{_OF}}}"
_CALL_TIME = f"outlast_model_call_duration_seconds{{{_OF}}}"
_TOKENS = f"outlast_model_tokens_total{{{_OF}}}"
_OPEN = workflows("Open turns", "WorkflowType = 'TurnWorkflow' AND ExecutionStatus = 'Running'")


def _tokens(kind: str) -> str:
    return f'outlast_model_tokens_total{{{_OF}, kind="{kind}"}}'


TURNS = Board(
    uid="outlast-turns",
    title="Outlast / Turns and models",
    description="Turns of sessions, the model calls in them, tokens and prompt caches.",
    variables=(Variable("provider", "Provider", 'outlast_model_calls_total{namespace="$namespace"}', "provider"),),
    rows=(
        row(
            "Turns",
            stacked(
                "Turns by end",
                "Per second, with status and reason.",
                Query(rate(_TURNS, "status, reason"), "{{status}} {{reason}}"),
                [_OPEN, runbook("models")],
            ),
            graph(
                "Duration of turns",
                "From the user's message to the end of the answer.",
                [Query(quantile(level, _TURN_TIME), f"p{level * 100:g}") for level in (0.5, 0.95)],
                runbook("models"),
                Unit.SECONDS,
            ),
            graph(
                "Time outside the models",
                "Share of the turns' time in which no model was answering: tools, waiting, and Outlast.",
                Query(
                    f"1 - clamp_max({rate(f'outlast_model_call_duration_seconds_sum{{{_NS}}}')} / "
                    f"({rate(f'outlast_turn_duration_seconds_sum{{{_NS}}}')} > 0), 1)",
                    "not the model",
                ),
                [runbook("models"), runbook("slow-calls")],
                Unit.SHARE,
            ),
        ),
        row(
            "Models",
            stacked(
                "Calls",
                "Answered model calls per second.",
                Query(rate(_CALLS, "provider"), "{{provider}}"),
                runbook("models"),
            ),
            graph(
                "Time of a call",
                "p95, from the request to the provider to the end of its answer.",
                Query(quantile(0.95, _CALL_TIME, "provider"), "{{provider}}"),
                runbook("models"),
                Unit.SECONDS,
                limits=Limits.above(60, 300),
            ),
            graph(
                "Mean time of a call",
                "From the request to the provider to the end of its answer.",
                Query(mean(_CALL_TIME, "provider"), "{{provider}}"),
                runbook("models"),
                Unit.SECONDS,
            ),
        ),
        row(
            "Tokens",
            graph(
                "Tokens",
                "Per second and kind; `input` includes cached tokens.",
                Query(rate(_TOKENS, "kind"), "{{kind}}"),
                runbook("money"),
            ),
            graph(
                "Share of input from caches",
                "A sudden drop means that the beginning of prompts changes.",
                Query(share(_tokens("cache_read"), _tokens("input"), "provider"), "{{provider}}"),
                runbook("models"),
                Unit.SHARE,
            ),
            graph(
                "Tokens per call",
                "Mean input and output of a step.",
                [
                    Query(f"{rate(_tokens('input'))} / ({rate(_CALLS)} > 0)", "input"),
                    Query(f"{rate(_tokens('output'))} / ({rate(_CALLS)} > 0)", "output"),
                ],
                runbook("models"),
            ),
        ),
    ),
)
