"""Texts about tasks for models and people: their questions, and the answer after a wait timed out."""

import json
from collections.abc import Mapping
from decimal import Decimal

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.unicode_text import printable
from outlast.api.access.permissions import approver_words
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.common.task_tools import MAX_WAIT_SECONDS
from outlast.workflows.tools.core.run_report import RunReport, build_run_report

_MAX_ARGUMENTS_CHARS = 1_500
_MAX_LINE_CHARS = 500
_LIMITS = (
    ("max_total_charge_usd", "maxTotalChargeUsd", "${}"),
    ("max_items", "maxItems", "{} items"),
    ("max_run_seconds", "timeout", "{} s of run time"),
)
"""Each limit: its name in the task's budget, its name in `callOptions` of call-actor, and how it is shown."""


def still_working(task: Task, *, run_report: bool) -> ToolResult:
    """The answer of a call that is still running. With `run_report`, it has the structure of run-related tools."""
    summary, next_step = _summary(task), _next_step(task)
    questions = [f"It asks ({key}): {question_text(asked)}" for key, asked in (task.input_requests or {}).items()]
    text = "\n".join([summary, *questions, next_step])
    if not run_report:
        error = ErrorEnvelope.permanent(ErrorCategory.TIMEOUT, task.tool, summary, hint=next_step)
        return ToolResult(content=(TextContent(text=text),), is_error=True, error=error)
    report = (
        build_run_report(task.run, summary=summary, next_step=next_step, actor_name=task.actor)
        if task.run is not None
        else RunReport(status=task.status.upper(), actor_name=task.actor, summary=summary, next_step=next_step)
    )
    structured = report.model_copy(update={"task_id": task.id}).structured()
    return ToolResult(content=(TextContent(text=text),), structured=structured)


def question_text(question: InputRequest) -> str:
    """The question's message, and for an approval the tool, the Actor, the arguments (cut) and the cost limits."""
    if question.handoff is None or not is_approval(question):
        return question.message
    return "\n".join([printable(question.message), *_approved_lines(question.handoff)])


def questions_line(questions: Mapping[str, InputRequest]) -> str:
    """All questions on one line of at most 500 characters."""
    lines = [
        f"{'waits for approval' if is_approval(one) else 'asks'}: {'; '.join(question_text(one).splitlines())}"
        for one in questions.values()
    ]
    return _cut(" | ".join(lines), _MAX_LINE_CHARS)


def is_approval(question: InputRequest) -> bool:
    """Return whether the question asks for the approval of a call."""
    return question.handoff is not None and question.handoff.kind == "approval"


def how_to_approve(task_id: str, questions: Mapping[str, InputRequest]) -> str:
    """The approvers of a task's calls, and how they answer."""
    command = f"`outlast tasks answer {task_id}`, or POST /v1/tasks/{task_id}/input"
    roles = sorted({role for question in questions.values() for role in question.approvers})
    if roles:
        return f"You cannot approve your own calls: {approver_words(roles)} does so with {command}."
    return f"They answer with {command}."


def _approved_lines(handoff: Handoff) -> list[str]:
    shown = handoff.parameters
    lines = [f"Tool: {printable(handoff.tool)}"]
    if isinstance(actor := shown.get("actor"), str):
        lines.append(f"Actor: {printable(actor)}")
    lines.append(f"Arguments: {_arguments(shown)}")
    if "budget" in shown:
        lines.append(f"May cost at most: {_cost_limits(shown)}")
    if handoff.approvers:
        maker = printable(handoff.maker or "its caller")
        lines.append(f"Approval by: {approver_words(handoff.approvers)}, not by {maker}")
    return lines


def _arguments(approved: Mapping[str, JsonValue]) -> str:
    """The arguments as JSON, cut, in one line."""
    if "arguments_omitted_bytes" in approved:
        begin = _cut(printable(str(approved.get("arguments_begin", ""))), _MAX_ARGUMENTS_CHARS)
        return f"{begin}… ({approved['arguments_omitted_bytes']} bytes in all)"
    text = json.dumps(approved.get("arguments", {}), ensure_ascii=False)
    return _cut(printable(text), _MAX_ARGUMENTS_CHARS)


def _cost_limits(approved: Mapping[str, JsonValue]) -> str:
    """The limits of the task's budget and of the call's own options; the stricter one of each kind applies."""
    budget = _object_in(approved, "budget")
    options = _object_in(_object_in(approved, "arguments"), "callOptions")
    parts: list[str] = []
    for budget_name, option_name, form in _LIMITS:
        limits = [Decimal(str(given)) for given in (budget.get(budget_name), options.get(option_name)) if given]
        if limits:
            parts.append(form.format(min(limits)))
    return ", ".join(parts) or "no limit set"


def _object_in(parent: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _summary(task: Task) -> str:
    doing = task.status_message or (f"run {task.run.run_id} is {task.run.status}" if task.run else "it has not started")
    return f"{task.tool} is not done yet: {doing}"


def _next_step(task: Task) -> str:
    questions = task.input_requests or {}
    if not task.asks_people:
        return f"It continues. Collect the result with get-task (taskId {task.id}, waitSecs up to {MAX_WAIT_SECONDS})."
    if any(is_approval(question) for question in questions.values()):
        how = how_to_approve(task.id, questions)
        return f"A person has to approve it. {how} Then collect the result with get-task."
    return f"Answer with answer-task (taskId {task.id}); then collect the result with get-task."
