"""How the default mode says what a run has come to."""

from activities.models import DatasetPage, RunState
from workflows.executors import ActorOutcome
from workflows.models import Offers, TextContent, ToolResult
from workflows.tools.core.answers import ROW_READERS, first_offered
from workflows.tools.core.run_report import build_run_report, run_failure
from workflows.tools.core.wording import describe_page, describe_run_status, next_page_hint, rows_as_lines


def present_finished_run(outcome: ActorOutcome) -> ToolResult:
    """The run's end, its first rows, and how to get the others."""
    run, page = outcome.run, outcome.preview
    summary = f"{outcome.actor}: {describe_run_status(run)}"
    error = run_failure(run, tool=outcome.tool, offers=outcome.offers)
    rows = describe_page(page) if page else ""
    next_step = (error.hint if error else None) or (_more_rows(page, outcome.offers) if page else "")
    report = build_run_report(run, summary=summary, next_step=next_step, page=page, actor_name=outcome.actor)
    text = "\n".join(part for part in (summary, rows, rows_as_lines(page.items) if page else "", next_step) if part)
    return ToolResult(
        content=(TextContent(text=text),), structured=report.structured(), is_error=error is not None, error=error
    )


def present_run_state(run: RunState, offers: Offers) -> ToolResult:
    """How far a run is, and what to call next."""
    summary = describe_run_status(run)
    error = run_failure(run, tool="get-actor-run", offers=offers)
    next_step = error.hint if error and error.hint else _next_step(run, offers)
    report = build_run_report(run, summary=summary, next_step=next_step)
    return ToolResult(
        content=(TextContent(text=f"{summary}\n{next_step}"),),
        structured=report.structured(),
        is_error=error is not None,
        error=error,
    )


def _more_rows(page: DatasetPage, offers: Offers) -> str:
    if page.end >= page.total:
        return "These are all rows."
    reader = first_offered(offers, *ROW_READERS)
    return (next_page_hint(page, tool=reader) if reader else None) or f"More rows are in dataset {page.dataset_id}."


def _next_step(run: RunState, offers: Offers) -> str:
    if run.is_final:
        reader = first_offered(offers, *ROW_READERS)
        return f"Its rows are in dataset {run.dataset_id}" + (f": call {reader}." if reader else ".")
    log = ", or get-actor-log for what it is doing" if offers("get-actor-log") else ""
    return f"It is still going. Call get-actor-run again for its state{log} (runId {run.run_id})."
