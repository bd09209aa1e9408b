"""How the default mode says what a run has come to."""

from activities.models import RunState
from workflows.executors import ActorOutcome
from workflows.models import TextContent, ToolResult
from workflows.tools.core.run_report import build_run_report, run_failure
from workflows.tools.core.wording import describe_page, describe_run_status, next_page_hint, rows_as_lines


def present_finished_run(outcome: ActorOutcome) -> ToolResult:
    """The run's end, its first rows, and how to get the others."""
    run, page = outcome.run, outcome.preview
    summary = f"{outcome.actor}: {describe_run_status(run)}"
    error = run_failure(run, tool=outcome.tool)
    rows = describe_page(page) if page else ""
    next_step = (error.hint if error else None) or (next_page_hint(page) if page else None) or "These are all rows."
    report = build_run_report(run, summary=summary, next_step=next_step, page=page, actor_name=outcome.actor)
    text = "\n".join(part for part in (summary, rows, rows_as_lines(page.items) if page else "", next_step) if part)
    return ToolResult(
        content=(TextContent(text=text),), structured=report.structured(), is_error=error is not None, error=error
    )


def present_run_state(run: RunState) -> ToolResult:
    """How far a run is, and what to call next."""
    summary = describe_run_status(run)
    error = run_failure(run, tool="get-actor-run")
    next_step = error.hint if error and error.hint else _next_step(run)
    report = build_run_report(run, summary=summary, next_step=next_step)
    return ToolResult(
        content=(TextContent(text=f"{summary}\n{next_step}"),),
        structured=report.structured(),
        is_error=error is not None,
        error=error,
    )


def _next_step(run: RunState) -> str:
    if run.is_final:
        return f"Its rows are in dataset {run.dataset_id}: call get-dataset-items."
    return (
        "It is still going. Call get-actor-run again for its state, or get-actor-log for what it is doing "
        f"(runId {run.run_id})."
    )
