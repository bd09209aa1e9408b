"""`get-actor-run` in the UI mode, and the presentation of runs: in few words, because a widget shows the rest."""

from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import describe_run_status
from outlast.workflows.tools.core.run_report import (
    RunArguments,
    build_run_report,
    get_actor_run_definition,
    run_with_rows,
)
from outlast.workflows.tools.framework.executors import ActorOutcome
from outlast.workflows.tools.openai.widgets import run_state_widget_meta, run_widget_meta


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


async def get_actor_run(ctx: ToolContext, arguments: RunArguments) -> ToolResult:
    """Look the run up for the widget."""
    run, page = await run_with_rows(ctx, arguments.run_id)
    return present_run_state(run, page)


GET_ACTOR_RUN = (
    get_actor_run_definition(get_actor_run, "Get the state of an Actor run and show it in the run widget.")
    .meta(**run_state_widget_meta())
    .build()
)
