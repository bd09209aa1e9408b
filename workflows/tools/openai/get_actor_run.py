"""`get-actor-run` in the UI mode, and the presentation of runs: in few words, because a widget shows the rest."""

from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered, describe_run_status
from outlast.workflows.tools.core.run_report import (
    RunArguments,
    RunReport,
    build_run_report,
    get_actor_run_definition,
    run_with_rows,
)
from outlast.workflows.tools.framework.executors import ActorOutcome
from outlast.workflows.tools.openai.widgets import run_state_widget_meta, run_widget_meta


def present_started_run(outcome: ActorOutcome) -> ToolResult:
    """Return the run's id. The widget follows the run from here."""
    run = outcome.run
    summary = f"Started {outcome.actor} as run {run.run_id}."
    next_step = "The widget shows its progress. Do not poll; call get-actor-run only when the user asks."
    report = build_run_report(run, summary=summary, next_step=next_step, actor_name=outcome.actor)
    return _shown(report, f"{summary} {next_step}")


def present_run_state(run: RunState, page: DatasetPage | None = None) -> ToolResult:
    """Return the state of a run for the widget. A failed run does not fail the call."""
    summary = describe_run_status(run)
    report = build_run_report(run, summary=summary, next_step="The widget shows the run.", page=page)
    return _shown(report, summary)


def _shown(report: RunReport, text: str) -> ToolResult:
    return answered(report, text).model_copy(update={"meta": run_widget_meta()})


async def get_actor_run(ctx: HandlerContext, arguments: RunArguments) -> ToolResult:
    """Look the run up for the widget."""
    run, page = await run_with_rows(ctx, arguments.run_id)
    return present_run_state(run, page)


GET_ACTOR_RUN = (
    get_actor_run_definition(get_actor_run, "Get the state of an Actor run and show it in the run widget.")
    .meta(**run_state_widget_meta())
    .build()
)
