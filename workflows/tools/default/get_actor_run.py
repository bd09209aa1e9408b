"""`get-actor-run` in the default mode, and the presentation of runs."""

from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.tool_calls import Offers, ToolResult, rows_as_lines
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools import answers
from outlast.workflows.tools.core.run_report import (
    RunArguments,
    build_run_report,
    get_actor_run_definition,
    run_failure,
    run_with_rows,
    until_meta,
)
from outlast.workflows.tools.framework.executors import ActorOutcome


def present_finished_run(outcome: ActorOutcome) -> ToolResult:
    """Return the run's end, its rows or the first of the stored ones, and a hint on the others."""
    run, page, output = outcome.run, outcome.preview, outcome.output
    status = f"{outcome.actor}: {answers.describe_run_status(run)}"
    error = run_failure(run, tool=outcome.tool, offers=outcome.offers) or outcome.refused
    next_step = " ".join(part for part in (error.hint if error else None, _rest_of_rows(outcome)) if part)
    rows = [answers.describe_page(page), rows_as_lines(page.items)] if page and not outcome.refused else []
    stored = [answers.describe_stored(output)] if output else []
    report = build_run_report(
        run,
        summary="\n".join([status, *stored]),
        next_step=next_step,
        page=page,
        actor_name=outcome.actor,
        output=output,
    )
    refused = [outcome.refused.message] if outcome.refused else []
    locator = output.locator if output else None
    return answers.answered(report, status, *refused, *stored, *rows, next_step).model_copy(
        update={"is_error": error is not None, "error": error, "locator": locator, "meta": until_meta(run)}
    )


def present_run_state(run: RunState, offers: Offers, page: DatasetPage | None = None) -> ToolResult:
    """Return the state of a run, its rows if they are few, and the next step. A failed run does not fail the call."""
    summary = answers.describe_run_status(run)
    failed = run_failure(run, tool="get-actor-run", offers=offers)
    next_step = failed.hint if failed and failed.hint else _next_step(run, offers)
    report = build_run_report(run, summary=summary, next_step=next_step, page=page)
    rows: list[str] = []
    if page:
        count = f"Dataset {page.dataset_id} has {page.total} rows."
        rows = [answers.describe_page(page) if page.items or page.total == 0 else count, rows_as_lines(page.items)]
    return answers.answered(report, summary, answers.describe_run_facts(run), *rows, next_step)


def _rest_of_rows(outcome: ActorOutcome) -> str | None:
    page = outcome.preview
    if page is None or outcome.refused:
        return None
    if outcome.output is not None:
        return answers.restore_hint(outcome.output, outcome.offers)
    if page.end >= page.total:
        return "These are all rows." if page.total else None
    reader = answers.first_offered(outcome.offers, *answers.ROW_READERS)
    return (
        answers.next_page_hint(page, tool=reader) if reader else None
    ) or f"More rows are in dataset {page.dataset_id}."


def _next_step(run: RunState, offers: Offers) -> str:
    if run.is_final:
        reader = answers.first_offered(offers, *answers.ROW_READERS)
        return f"Its rows are in dataset {run.dataset_id}" + (f": call {reader}." if reader else ".")
    log = ", or get-actor-log for what it is doing" if offers("get-actor-log") else ""
    return f"It is still running. Call get-actor-run again for its state{log} (runId {run.run_id})."


async def get_actor_run(ctx: HandlerContext, arguments: RunArguments) -> ToolResult:
    """Read the run."""
    run, page = await run_with_rows(ctx, arguments.run_id)
    return present_run_state(run, ctx.offers, page)


GET_ACTOR_RUN = get_actor_run_definition(
    get_actor_run, "Get the state of an Actor run: status, status message, cost so far, and where its results are."
).build()
