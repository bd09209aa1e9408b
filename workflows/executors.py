"""When does the handler of an Actor tool return? Sync: when the run has ended. Async: when it has started.

A mode chooses its executor once; `call-actor` and every direct Actor tool go through it, in every call path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from activities.models import DatasetItemsInput, DatasetPage, RunSpec, RunState
from workflows.context import ToolContext
from workflows.models import Offers, ToolResult, offers_all

PREVIEW_ROWS = 20
PREVIEW_BYTES = 2_048
"""Rows in an answer stand in the history three times: as read, as text and as data. With 2 KB of rows the history of a
sync call stays within 15 KB."""

PREVIEW_TEXT_CHARS = 100
"""Longer texts in a preview are cut, so that it shows several rows even of pages that were crawled."""


@dataclass(frozen=True)
class ActorOutcome:
    """What an executor has to show: the run, and the first rows when it has ended. `tool` is the one called."""

    tool: str
    actor: str
    run: RunState
    preview: DatasetPage | None = None
    offers: Offers = offers_all


Presenter = Callable[[ActorOutcome], ToolResult]
"""A mode's way of saying what happened."""


class ActorExecutor(Protocol):
    """The one interface behind every tool that runs an Actor."""

    @property
    def kind(self) -> Literal["sync", "async"]:
        """Whether the caller's answer comes with the run's end or with its start."""
        ...

    async def execute_actor_tool(self, ctx: ToolContext, params: RunSpec) -> ToolResult:
        """Run the Actor. Raises `workflows.failures.ToolError` when the platform refuses or a limit is reached."""
        ...


class SyncActorExecutor:
    """Returns after the run has ended and the first rows of its dataset were read."""

    kind: Literal["sync", "async"] = "sync"

    def __init__(self, present: Presenter) -> None:
        """Answer as `present` says it."""
        self._present = present

    async def execute_actor_tool(self, ctx: ToolContext, params: RunSpec) -> ToolResult:
        """Start, follow, read the first rows, answer."""
        started = await ctx.apify.start(params)
        ctx.say(describe_run(started))
        run = await ctx.apify.finish(started, params.budget)
        page = await ctx.storage.items(
            DatasetItemsInput(
                caller=ctx.call.caller,
                dataset_id=run.dataset_id,
                limit=PREVIEW_ROWS,
                max_bytes=PREVIEW_BYTES,
                max_text_chars=PREVIEW_TEXT_CHARS,
                expect_items=run.status == "SUCCEEDED",
            )
        )
        ctx.say(describe_run(run, rows=page.total))
        return self._present(ActorOutcome(ctx.call.tool, params.actor, run, page, offers=ctx.offers))


class AsyncActorExecutor:
    """Returns as soon as the run has started; the workflow stays as its guardian."""

    kind: Literal["sync", "async"] = "async"

    def __init__(self, present: Presenter) -> None:
        """Answer as `present` says it."""
        self._present = present

    async def execute_actor_tool(self, ctx: ToolContext, params: RunSpec) -> ToolResult:
        """Start, leave the run to the guardian, answer."""
        run = await ctx.apify.start(params)
        ctx.say(describe_run(run))
        ctx.guard(run, params.budget)
        return self._present(ActorOutcome(ctx.call.tool, params.actor, run, offers=ctx.offers))


def describe_run(run: RunState, *, rows: int | None = None) -> str:
    """A run for operators, as Markdown."""
    link = f"[{run.run_id}]({run.console_url})" if run.console_url else f"`{run.run_id}`"
    lines = [f"**Run** {link}: {run.status}" + (f", {run.status_message}" if run.status_message else "")]
    lines.append(f"**Dataset** `{run.dataset_id}`" + (f": {rows} rows" if rows is not None else ""))
    if run.usage_total_usd is not None:
        lines.append(f"**Cost** {run.usage_total_usd:.4f} US dollars")
    return "\n\n".join(lines)
