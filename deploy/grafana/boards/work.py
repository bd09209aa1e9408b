"""Batches, schedules, reused answers and webhooks; conversations with models."""

from outlast.deploy.grafana import board

_NS = 'namespace="$namespace"'
_BATCHES = board.workflows("Open batches", "WorkflowType = 'BatchWorkflow' AND ExecutionStatus = 'Running'")
_FIRINGS = board.workflows("Firings", "WorkflowType = 'ScheduleFiringWorkflow'")
_DELIVERIES = board.workflows("Deliveries", "WorkflowType = 'WebhookDeliveryWorkflow'")
_NO_ANSWER = 'outcome=~"unreachable|timeout"'

BULK = board.Board(
    uid="outlast-bulk",
    title="Outlast / Batches, schedules, webhooks",
    description="Bulk work: items of batches, firings of schedules, reused answers, events for webhooks.",
    rows=(
        board.row(
            "Batches",
            board.stacked(
                "Items that ended",
                "Per second, over all batches.",
                board.Query(board.rate(f"outlast_batch_items_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [board.runbook("bulk"), _BATCHES],
            ),
            board.graph(
                "Share of items that failed",
                "A batch stops when one of its stop conditions is met.",
                board.Query(
                    board.share(
                        f'outlast_batch_items_total{{{_NS}, outcome="failed"}}', f"outlast_batch_items_total{{{_NS}}}"
                    )
                ),
                [board.runbook("bulk"), _BATCHES],
                board.Unit.SHARE,
                limits=board.Limits.above(0.1, 0.3),
            ),
            board.graph(
                "Batches that ended",
                "In the time shown: completed, cancelled or stopped, with the reason.",
                board.Query(
                    board.increase(f"outlast_batches_total{{{_NS}}}", "status, reason"), "{{status}} {{reason}}"
                ),
                [board.runbook("bulk"), _BATCHES],
            ),
        ),
        board.row(
            "Schedules and reuse",
            board.graph(
                "Firings of schedules",
                "In the time shown. Missed firings could not be started within their window.",
                board.Query(board.increase(f"outlast_firings_total{{{_NS}}}", "status"), "{{status}}"),
                [board.runbook("bulk"), _FIRINGS],
            ),
            board.graph(
                "Share of items answered by an identical call",
                "For all batches. These items start nothing and cost nothing.",
                board.Query(
                    board.share(
                        f'outlast_batch_items_total{{{_NS}, reused="true"}}', f"outlast_batch_items_total{{{_NS}}}"
                    )
                ),
                [board.runbook("bulk"), _BATCHES],
                board.Unit.SHARE,
            ),
            board.stacked(
                "Single calls with reuse",
                "Per second: answered by a finished task, joined to a running one, or started.",
                board.Query(board.rate("outlast_reused_calls_total", "outcome"), "{{outcome}}"),
                board.runbook("bulk"),
            ),
        ),
        board.row(
            "Webhooks",
            board.graph(
                "Events",
                "In the time shown: delivered, failed after all attempts, or dropped with their webhook.",
                board.Query(board.increase(f"outlast_webhook_deliveries_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [board.runbook("bulk"), _DELIVERIES],
            ),
            board.stacked(
                "Attempts",
                "Per second, by outcome.",
                board.Query(board.rate(f"outlast_webhook_attempts_total{{{_NS}}}", "outcome"), "{{outcome}}"),
                [board.runbook("bulk"), _DELIVERIES],
            ),
            board.graph(
                "Share of attempts without an answer",
                "Unreachable or too slow. Near 1 for all receivers, outgoing connections fail.",
                board.Query(
                    board.share(
                        f"outlast_webhook_attempts_total{{{_NS}, {_NO_ANSWER}}}",
                        f"outlast_webhook_attempts_total{{{_NS}}}",
                    )
                ),
                [board.runbook("bulk"), _DELIVERIES],
                board.Unit.SHARE,
                limits=board.Limits.above(0.2, 0.5),
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
_OPEN = board.workflows("Open turns", "WorkflowType = 'TurnWorkflow' AND ExecutionStatus = 'Running'")


def _tokens(kind: str) -> str:
    return f'outlast_model_tokens_total{{{_OF}, kind="{kind}"}}'


TURNS = board.Board(
    uid="outlast-turns",
    title="Outlast / Turns and models",
    description="Turns of sessions, the model calls in them, tokens and prompt caches.",
    variables=(
        board.Variable("provider", "Provider", 'outlast_model_calls_total{namespace="$namespace"}', "provider"),
    ),
    rows=(
        board.row(
            "Turns",
            board.stacked(
                "Turns by end",
                "Per second, with status and reason.",
                board.Query(board.rate(_TURNS, "status, reason"), "{{status}} {{reason}}"),
                [_OPEN, board.runbook("models")],
            ),
            board.graph(
                "Duration of turns",
                "From the user's message to the end of the answer.",
                [board.Query(board.quantile(level, _TURN_TIME), f"p{level * 100:g}") for level in (0.5, 0.95)],
                board.runbook("models"),
                board.Unit.SECONDS,
            ),
            board.graph(
                "Time outside the models",
                "Share of the turns' time in which no model was answering: tools, waiting, and Outlast.",
                board.Query(
                    f"1 - clamp_max({board.rate(f'outlast_model_call_duration_seconds_sum{{{_NS}}}')} / "
                    f"({board.rate(f'outlast_turn_duration_seconds_sum{{{_NS}}}')} > 0), 1)",
                    "not the model",
                ),
                [board.runbook("models"), board.runbook("slow-calls")],
                board.Unit.SHARE,
            ),
        ),
        board.row(
            "Models",
            board.stacked(
                "Calls",
                "Answered model calls per second.",
                board.Query(board.rate(_CALLS, "provider"), "{{provider}}"),
                board.runbook("models"),
            ),
            board.graph(
                "Time of a call",
                "p95, from the request to the provider to the end of its answer.",
                board.Query(board.quantile(0.95, _CALL_TIME, "provider"), "{{provider}}"),
                board.runbook("models"),
                board.Unit.SECONDS,
                limits=board.Limits.above(60, 300),
            ),
            board.graph(
                "Mean time of a call",
                "From the request to the provider to the end of its answer.",
                board.Query(board.mean(_CALL_TIME, "provider"), "{{provider}}"),
                board.runbook("models"),
                board.Unit.SECONDS,
            ),
        ),
        board.row(
            "Tokens",
            board.graph(
                "Tokens",
                "Per second and kind; `input` includes cached tokens.",
                board.Query(board.rate(_TOKENS, "kind"), "{{kind}}"),
                board.runbook("money"),
            ),
            board.graph(
                "Share of input from caches",
                "A sudden drop means that the beginning of prompts changes.",
                board.Query(board.share(_tokens("cache_read"), _tokens("input"), "provider"), "{{provider}}"),
                board.runbook("models"),
                board.Unit.SHARE,
            ),
            board.graph(
                "Tokens per call",
                "Mean input and output of a step.",
                [
                    board.Query(f"{board.rate(_tokens('input'))} / ({board.rate(_CALLS)} > 0)", "input"),
                    board.Query(f"{board.rate(_tokens('output'))} / ({board.rate(_CALLS)} > 0)", "output"),
                ],
                board.runbook("models"),
            ),
        ),
    ),
)
