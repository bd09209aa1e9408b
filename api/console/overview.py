"""The overview: is all well, what failed and why, what waits for me, what is spent, and what comes next."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from outlast.api.console.framework import Context, Section, View
from outlast.api.console.schedules import firings_of
from outlast.api.console.tasks import failed_since, whose
from outlast.contracts.operations import Operations, UsageQuery
from outlast.contracts.tasks import Task
from outlast.contracts.webhooks import DeliveryListing

section = Section("Overview")
_HOUR = timedelta(hours=1)
_MOST_REASONS = 8
_MOST_FIRINGS = 5
_SLOW_SECONDS = 10
_VARIABLE = re.compile(
    r"\b(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{10,}\b|(?<![\d.])(?![45]\d\d\b)\d+(?:\.\d+)*"
)
"""What differs in messages about the same thing: ids and numbers, except codes of HTTP errors."""


@dataclass(frozen=True)
class Reason:
    """Calls that failed for the same reason."""

    tool: str
    category: str
    words: str
    calls: int
    sample: Task


@section.page("", "overview.html", live=("summary", "failures", "batches", "handoffs", "spent", "next"))
async def overview(view: View) -> Context:
    """Everything at a glance."""
    services, principal = view.services, view.principal
    operations, failed, handoffs, batches, usage, deliveries = await asyncio.gather(
        services.operations.read(principal),
        view.snapshot("failed", partial(failed_since, view, _HOUR)),
        services.handoffs.open(principal),
        services.batches.list(view.caller, page_size=5),
        view.snapshot("spent", partial(_spent, view)),
        services.deliveries.list(view.caller, DeliveryListing(page_size=100)),
    )
    schedules = await view.snapshot("schedules", partial(services.schedules.list, view.caller))
    ended = operations.counts
    return {
        "operations": operations,
        "health": health_of(operations),
        "reasons": reasons_of(failed.tasks),
        "handoffs": handoffs[:5],
        "waiting": len(handoffs),
        "batches": batches.batches,
        "usage": usage,
        "firings": firings_of(schedules.schedules)[:_MOST_FIRINGS],
        "undelivered": len(deliveries.deliveries),
        "more_undelivered": deliveries.next_page_token is not None,
        "ended": ended.completed_last_hour + ended.failed_last_hour + ended.cancelled_last_hour,
        "title": f"{ended.failed_last_hour} failed" if ended.failed_last_hour else "Overview",
    }


async def _spent(view: View) -> object:
    """What was spent today, by caller. None while no worker can tell."""
    today = datetime.now(UTC).date()
    fields = {"from": today, "to": today, "by": ("caller",), **whose(view)}
    return await view.services.usage.report(view.principal, UsageQuery.model_validate(fields))


def health_of(found: Operations) -> tuple[str, str]:
    """The state of the server in a sentence, and its tone: `good`, `warn` or `bad`."""
    if found.scope != "all":
        open_tasks = found.counts.working + found.counts.queued + found.counts.input_required
        return "good", f"The server answers: {open_tasks} of your tasks {'is' if open_tasks == 1 else 'are'} open"
    if not found.workers:
        return "bad", "No worker runs: calls wait for one. See outlast doctor"
    oldest = max((queue.oldest_seconds for queue in found.queues), default=0)
    if oldest >= _SLOW_SECONDS:
        return "warn", f"Steps have waited for {oldest:.0f} s for a worker"
    workers = f"{len(found.workers)} worker{'s' if len(found.workers) > 1 else ''}"
    waiting = sum(queue.backlog for queue in found.queues)
    return "good", f"All is well: {workers}, " + (f"{waiting} steps in queues" if waiting else "queues are empty")


def reasons_of(tasks: Iterable[Task]) -> list[Reason]:
    """Failed tasks, grouped by their messages without ids and numbers; the most frequent first."""
    counts = Counter[tuple[str, str, str]]()
    samples: dict[tuple[str, str, str], Task] = {}
    for task in tasks:
        message = (task.error.message if task.error else None) or task.status_message or "It failed."
        words = words_without_numbers(message)
        key = (task.tool, task.error.category if task.error else "", words)
        counts[key] += 1
        samples.setdefault(key, task)
    return [Reason(*key, calls, samples[key]) for key, calls in counts.most_common(_MOST_REASONS)]


def words_without_numbers(message: str) -> str:
    """A message without what differs between calls: `…` for ids, `#` for numbers."""
    return _VARIABLE.sub(lambda found: "#" if found[0].replace(".", "").isdigit() else "…", message)
