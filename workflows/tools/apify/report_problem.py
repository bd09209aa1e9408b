"""`report-problem`: report a defect to the operator of this server."""

from typing import Any

from temporalio import workflow

from outlast.activities.contracts import ErrorCategory
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify.answers import texts
from outlast.workflows.tools.apify.schemas import answer, arguments, array, begun, flag, text
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Tell those who run this server about a problem with a tool, an Actor or an answer: what was tried, what was expected,
what happened. Leave out passwords, tokens and personal data. The report goes to the server's log and to nobody else.
"""
_MAX_ID_CHARS = 200
_NAMED = (
    "If this cannot be put right from here, tell it to those who run this server with report-problem: what was tried, "
    "and this error."
)
_NOT_REPORTED = frozenset({ErrorCategory.PAYMENT, ErrorCategory.PERMISSION, ErrorCategory.AUTHENTICATION})
"""Failures that a person solves by paying, allowing or signing in: not problems of the server."""


def naming_reports(failed: ToolResult) -> ToolResult:
    """Add a text that names this tool to a tool error, if it is a problem to report."""
    if not failed.is_error or (failed.error is not None and failed.error.category in _NOT_REPORTED):
        return failed
    note = TextContent(text=_NAMED)
    if failed.raw_content is not None:
        return failed.model_copy(update={"raw_content": (*failed.raw_content, note.model_dump(mode="json"))})
    return failed.model_copy(update={"content": (*failed.content, note)})


async def report_problem(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Write a line to the log of the worker; the report itself is in the task's arguments."""
    facts = {
        "caller": ctx.call.caller.id,
        "about_actor": given.get("actorId"),
        "about_run": given.get("actorRunId"),
        "about_tools": given.get("relatedTools"),
        "characters": len(str(given["message"])),
    }
    workflow.logger.warning("a problem was reported", extra={"task": ctx.task_id, **facts})
    return texts({"reported": True}, f"Reported to those who run this server, as task {ctx.task_id}.")


REPORT_PROBLEM = (
    begun(
        "report-problem",
        Category.DEV,
        ToolAnnotations(title="Report a problem", idempotent=False, open_world=False),
        does=DESCRIPTION,
        arguments=arguments(
            {
                "message": text("What was tried, expected and seen.", minLength=1, maxLength=2_000),
                "actorId": text("The Actor that it is about.", maxLength=_MAX_ID_CHARS),
                "actorRunId": text("The run that it is about.", maxLength=_MAX_ID_CHARS),
                "relatedTools": array(text(maxLength=100), "The tools that it is about.", maxItems=20),
            },
            required=("message",),
        ),
        answer=answer({"reported": flag()}, required=("reported",)),
    )
    .server(report_problem)
    .build()
)
