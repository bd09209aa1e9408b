"""The answer of a call that is still running when its wait ends: its state, and how to collect the result."""

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.tasks.question_text import how_to_approve, is_approval, question_text
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.common.task_tools import MAX_WAIT_SECONDS
from outlast.workflows.tools.core.run_report import RunReport, build_run_report


def still_working(task: Task, *, run_report: bool) -> ToolResult:
    """The answer of a call that is still running. With `run_report`, it has the structure of run-related tools."""
    summary, next_step = _summary(task), _next_step(task)
    text = "\n".join([summary, *_questions(task), next_step])
    if not run_report:
        return ToolResult(content=(TextContent(text=text),), is_error=True, error=_unfinished(task, summary, next_step))
    report = (
        build_run_report(task.run, summary=summary, next_step=next_step, actor_name=task.actor)
        if task.run is not None
        else RunReport(status=task.status.value.upper(), actor_name=task.actor, summary=summary, next_step=next_step)
    )
    structured = report.model_copy(update={"task_id": task.id}).structured()
    return ToolResult(content=(TextContent(text=text),), structured=structured)


def _summary(task: Task) -> str:
    doing = task.status_message or (f"run {task.run.run_id} is {task.run.status}" if task.run else "it has not started")
    return f"{task.tool} is not done yet: {doing}"


def _next_step(task: Task) -> str:
    if task.asks_people:
        if _waits_for_approval(task):
            how = how_to_approve(task.id, task.input_requests or {})
            return f"A person has to approve it. {how} Then collect the result with get-task."
        return f"Answer with answer-task (taskId {task.id}); then collect the result with get-task."
    return f"It goes on. Collect the result with get-task (taskId {task.id}, waitSecs up to {MAX_WAIT_SECONDS})."


def _waits_for_approval(task: Task) -> bool:
    return any(is_approval(question) for question in (task.input_requests or {}).values())


def _questions(task: Task) -> list[str]:
    return [f"It asks ({key}): {question_text(question)}" for key, question in (task.input_requests or {}).items()]


def _unfinished(task: Task, summary: str, next_step: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(ErrorCategory.TIMEOUT, task.tool, summary, hint=next_step)
