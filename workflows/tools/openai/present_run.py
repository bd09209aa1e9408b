"""How the UI mode says that a run has started, and how far it is: in few words, since a widget shows the rest."""

from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.answers import describe_run_status
from outlast.workflows.tools.core.run_report import build_run_report
from outlast.workflows.tools.framework.executors import ActorOutcome
from outlast.workflows.tools.openai.widgets import run_widget_meta


def present_started_run(outcome: ActorOutcome) -> ToolResult:
    """The run's id; the widget follows it from here."""
    run = outcome.run
    summary = f"Started {outcome.actor} as run {run.run_id}."
    next_step = "The widget shows its progress. Do not poll; call get-actor-run only when the user asks."
    report = build_run_report(run, summary=summary, next_step=next_step, actor_name=outcome.actor)
    return ToolResult(
        content=(TextContent(text=f"{summary} {next_step}"),), structured=report.structured(), meta=run_widget_meta()
    )


def present_run_state(run: RunState, page: DatasetPage | None = None) -> ToolResult:
    """How far a run is, for the widget. A run that failed is no failed look-up."""
    summary = describe_run_status(run)
    report = build_run_report(run, summary=summary, next_step="The widget shows the run.", page=page)
    return ToolResult(
        content=(TextContent(text=summary),),
        structured=report.structured(),
        meta=run_widget_meta(),
    )
