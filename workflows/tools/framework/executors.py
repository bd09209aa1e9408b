"""Executors, which decide when the handler of an Actor tool returns: at the run's end (sync), or at its start (async).

A mode has one executor; `call-actor` and every direct Actor tool use it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.contracts import StoredOutput
from outlast.activities.runs.contracts import RunSpec, RunState
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.workflows.contracts.tool_calls import Offers, ToolResult, offers_all
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError

INLINE_ROWS = 1_000


@dataclass(frozen=True)
class ActorOutcome:
    """Result of an executor: the run and, at its end, its rows or the first of the stored ones.

    `tool` is the tool that was called. `refused` is the error for rows that may neither be stored nor shown.
    """

    tool: str
    actor: str
    run: RunState
    preview: DatasetPage | None = None
    offers: Offers = offers_all
    output: StoredOutput | None = None
    refused: ErrorEnvelope | None = None


Presenter = Callable[[ActorOutcome], ToolResult]
"""Function of a mode that presents an outcome."""


class ActorExecutor(Protocol):
    """Interface of every tool that runs an Actor."""

    kind: Literal["sync", "async"]
    """Time of the caller's answer: the run's end, or its start."""

    async def execute_actor_tool(self, ctx: HandlerContext, params: RunSpec) -> ToolResult:
        """Run the Actor. Raises `ToolError` when the platform refuses or a limit is reached."""
        ...


class SyncActorExecutor:
    """Returns after the run has ended and its dataset was read, or stored when it is large."""

    kind: Literal["sync", "async"] = "sync"

    def __init__(self, present: Presenter) -> None:
        self._present = present

    async def execute_actor_tool(self, ctx: HandlerContext, params: RunSpec) -> ToolResult:
        """Start the run, follow it, read or store its rows, and answer."""
        started = await ctx.runs.start(params)
        ctx.say(describe_run(started))
        run, page = await ctx.runs.finish_with_rows(started, params.budget, within_bytes=inline_bytes(ctx))
        with _naming(run):
            if page is None:
                page = await ctx.storages.items(_whole_dataset(ctx, run))
            outcome = ActorOutcome(ctx.call.tool, params.actor, run, page, offers=ctx.offers)
            if page.end < page.total:
                outcome = await _with_large_output(ctx, outcome, page)
        ctx.say(describe_run(run, rows=page.total))
        ctx.recorded_rows = outcome.preview.items if outcome.preview else ()
        return self._present(outcome)


class AsyncActorExecutor:
    """Returns when the run has started; the workflow then follows the run to its end."""

    kind: Literal["sync", "async"] = "async"

    def __init__(self, present: Presenter) -> None:
        self._present = present

    async def execute_actor_tool(self, ctx: HandlerContext, params: RunSpec) -> ToolResult:
        """Start the run, let the workflow follow it, and answer."""
        run = await ctx.runs.start(params)
        ctx.say(describe_run(run))
        ctx.guard(run, params.budget)
        return self._present(ActorOutcome(ctx.call.tool, params.actor, run, offers=ctx.offers))


def inline_bytes(ctx: HandlerContext) -> int:
    """Return the size in bytes up to which an answer contains all rows: the call's threshold, or the server's."""
    policy = ctx.call.output
    if not policy.compress:
        return policy.inline_limit_bytes
    return policy.default_threshold_bytes if policy.threshold_bytes is None else policy.threshold_bytes


@contextmanager
def _naming(run: RunState) -> Generator[None]:
    """Add the end of `run`, which was paid, and the place of its rows to an error about the rows."""
    try:
        yield
    except ToolError as error:
        envelope = error.envelope
        message = f"Run {run.run_id} ended as {run.status}, and its rows could not be read. {envelope.message}"
        hint = f"They are in dataset {run.dataset_id}: read them from there, and do not run it again."
        raise ToolError(envelope.model_copy(update={"message": message, "hint": hint})) from error


def _whole_dataset(ctx: HandlerContext, run: RunState) -> DatasetItemsInput:
    return DatasetItemsInput(
        caller=ctx.call.caller,
        dataset_id=run.dataset_id,
        limit=INLINE_ROWS,
        max_bytes=inline_bytes(ctx),
        whole=True,
        expect_items=run.status == "SUCCEEDED",
        describe_run_store=run.key_value_store_id,
    )


async def _with_large_output(ctx: HandlerContext, outcome: ActorOutcome, page: DatasetPage) -> ActorOutcome:
    """Store the rows and keep the first of them; refuse if compression is off."""
    if not ctx.call.output.compress:
        return replace(outcome, refused=_too_large(outcome, page, ctx.call.output.inline_limit_bytes))
    stored = await ctx.outputs.store_dataset(outcome.run.dataset_id)
    shown = stored.preview.model_copy(update={"keys": page.keys, "items_schema": page.items_schema})
    return replace(outcome, preview=shown, output=stored.output)


def _too_large(outcome: ActorOutcome, page: DatasetPage, limit: int) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        outcome.tool,
        f"Run {outcome.run.run_id} ended as {outcome.run.status}. Its {page.total} rows have more than {limit} "
        "bytes, which are not answered with compression off.",
        hint=f"Nothing is lost: read dataset {page.dataset_id} in parts, few fields at a time. Do not run it again.",
    )


def describe_run(run: RunState, *, rows: int | None = None) -> str:
    """Describe a run for operators, as Markdown."""
    link = f"[{run.run_id}]({run.console_url})" if run.console_url else f"`{run.run_id}`"
    lines = [f"**Run** {link}: {run.status}" + (f", {run.status_message}" if run.status_message else "")]
    lines.append(f"**Dataset** `{run.dataset_id}`" + (f": {rows} rows" if rows is not None else ""))
    if run.usage_total_usd is not None:
        lines.append(f"**Cost** {run.usage_total_usd:.4f} US dollars")
    return "\n\n".join(lines)
