"""How the throw-away mode says what a run has come to."""

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.core.run_report import build_run_report
from outlast.workflows.tools.framework.executors import ActorOutcome


def present_as_artifact(outcome: ActorOutcome) -> ToolResult:
    report = build_run_report(outcome.run, summary="An artifact", next_step="Look at it.", page=outcome.preview)
    return ToolResult(content=(TextContent(text="<artifact/>"),), structured=report.structured())
