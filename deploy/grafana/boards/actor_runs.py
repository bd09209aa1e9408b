"""Runs on the platform: starts, adoptions, failovers, aborts, and their cost."""

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
    stacked,
    workflows,
)

_RUNS = 'outlast_actor_runs_total{namespace="$namespace"}'
_SPENT = 'outlast_spend_usd_sum{namespace="$namespace"}'
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
