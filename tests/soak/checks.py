"""What has to be true after a soak, as figures with targets."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal

from temporalio.client import Client

from outlast.activities.spending.contracts import exact_usd, ledger_id
from tests.benchmarks.report import Figure, Target
from tests.soak.load import Outcome
from tests.soak.stack import SoakStack
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos

EXPECTED_ALERTS: Mapping[str, str] = {
    "OutlastAnswersBurnFast": "an API that is killed, and a Temporal that is away, cost answers",
    "OutlastAnswersBurnSlow": "the same",
    "OutlastQuickCallsBurnFast": "a quick call waits for the worker that was killed",
    "OutlastQuickCallsBurnSlow": "the same",
    "OutlastLostStarts": "the platform loses answers to starts on purpose",
    "OutlastTasksWaitForWorkers": "what waits for the worker that was killed",
    "OutlastActivitiesWaitForWorkers": "the same",
}
"""What kills and faults may raise; any other alert should not have fired."""
_MEMORY_MBYTES = {"worker": 500, "api": 400, "temporal": 1_200, "sandbox": 400}
_BYTES_PER_TASK = 400_000
_PATIENCE_SECONDS = 300


def load_figures(outcome: Outcome) -> list[Figure]:
    """How much was called, and what went wrong."""
    seconds = sorted(outcome.seconds) or [0.0]
    return [
        *(Figure(f"calls: {kind}", number) for kind, number in sorted(outcome.ended.items())),
        Figure("calls with a wrong answer, or none", len(outcome.wrong), "", Target("exactly", 0)),
        Figure("time of a call, p50", seconds[len(seconds) // 2], "s"),
        Figure("time of a call, p99", seconds[int(len(seconds) * 0.99)], "s"),
    ]


async def books_figures(chaos: Chaos, temporal: Client, outcome: Outcome) -> list[Figure]:
    """Every call has its task, every task has ended and has one run at most, and the ledger equals the charges."""

    async def none_open() -> bool:
        return not await open_work(temporal)

    await _patiently(none_open)
    failed_itself = "(ExecutionStatus = 'Failed' AND OutlastTaskStatus != 'failed')"
    abnormal = (
        f"WorkflowType = 'ToolCallWorkflow' AND (ExecutionStatus IN ('Terminated', 'TimedOut') OR {failed_itself})"
    )
    runs = chaos.books.runs_per_operation()
    charged = sum((_charge(chaos, run) for run in chaos.books.run_ids()), Decimal(0))
    booked, reservations = await _booked(chaos, temporal, charged)
    tasks = (await temporal.count_workflows("WorkflowType = 'ToolCallWorkflow'")).count
    beyond = tasks - outcome.ended.total()
    return [
        Figure("tasks", tasks),
        Figure("tasks without a call", max(beyond, 0), "", Target("at most", outcome.unanswered)),
        _none("calls without a task", max(-beyond, 0)),
        _none("tasks still open", await open_work(temporal)),
        Figure(
            "tasks with a wrong end",
            (await temporal.count_workflows(abnormal)).count,
            "",
            Target("exactly", 0),
        ),
        Figure("operations with a run", len(runs)),
        _none("operations with more than one run", sum(number > 1 for number in runs)),
        _none("runs still running", len(chaos.books.running)),
        Figure("charged by the platform", float(charged * 1000), "thousandths of a US dollar"),
        _none("ledger less charges", float(booked - charged)),
        _none("unsettled reservations", reservations),
    ]


def _none(name: str, number: float) -> Figure:
    return Figure(name, number, "", Target("exactly", 0))


async def open_work(temporal: Client) -> int:
    """How many tasks and turns go on."""
    query = "WorkflowType IN ('ToolCallWorkflow', 'TurnWorkflow') AND ExecutionStatus = 'Running'"
    return (await temporal.count_workflows(query)).count


def _charge(chaos: Chaos, run_id: str) -> Decimal:
    return exact_usd(chaos.sandbox.run(run_id)["usageTotalUsd"])


async def _booked(chaos: Chaos, temporal: Client, charged: Decimal) -> tuple[Decimal, int]:
    """What the ledger has, and how many reservations; it is asked until it equals the charges, or for long."""
    booked, reservations = Decimal(0), 0

    async def equal() -> bool:
        nonlocal booked, reservations
        ledger = await temporal.get_workflow_handle(ledger_id("local")).query("overview")
        usage = (await chaos.http.get("/v1/usage")).raise_for_status().json()
        booked, reservations = exact_usd(usage["total_usd"]), ledger["reservations"]
        return booked == charged and not reservations

    await _patiently(equal)
    return booked, reservations


async def _patiently(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds, or after long: the figures say then what does not."""
    with suppress(AssertionError):
        await eventually(holds, _PATIENCE_SECONDS, 1)


def size_figures(soak: SoakStack, memory: Mapping[str, float], disk_before: int, tasks: int) -> list[Figure]:
    """The most memory that each process had, and the disk per task."""
    grown = soak.disk_bytes() - disk_before
    return [
        *(
            Figure(f"most memory: {name}", memory.get(name, 0), "MB", Target("at most", limit))
            for name, limit in _MEMORY_MBYTES.items()
        ),
        Figure("disk", grown / 1e6, "MB"),
        Figure("disk per task", grown / max(tasks, 1) / 1e3, "kB", Target("at most", _BYTES_PER_TASK / 1e3)),
    ]


def alert_figures(soak: SoakStack, seconds: float) -> tuple[list[Figure], Sequence[str]]:
    """Alerts that fired at any time, and the names of those that should not have."""
    if soak.prometheus is None:
        return [], ()
    query = f'count by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{int(seconds) + 60}s]))'
    fired = {entry["metric"]["alertname"] for entry in soak.prometheus.get("query", query=query)["result"]}
    wrong = sorted(fired - EXPECTED_ALERTS.keys())
    return [
        Figure("alerts that kills explain", len(fired) - len(wrong)),
        Figure("alerts that should not have fired", len(wrong), ", ".join(wrong), Target("exactly", 0)),
    ], wrong
