"""The tools that manage tasks, and what they share with the tools of batches and schedules. No workflow runs them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.api.access.policy.contracts import Scope
from outlast.api.errors import TaskNotFound
from outlast.api.local_calls import LocalCall
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.task_text import how_to_approve, is_approval, question_text
from outlast.contracts.tasks import Task, TaskAnswer, TaskListing
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common import task_tools

TASK_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    "get-task": ("read",),
    "list-tasks": ("read",),
    "cancel-task": ("cancel",),
    "answer-task": ("call", "approve"),
}
"""The scopes of each tool. A key needs one of them."""
Handler = Callable[[LocalCall, Any], Awaitable[ToolResult]]


def invalid(call: LocalCall, message: str, violations: tuple[Violation, ...] | None = None) -> ToolError:
    """The error for arguments that contradict each other, or that the API refuses."""
    category, tool = ErrorCategory.VALIDATION, call.definition.name
    return ToolError(ErrorEnvelope.permanent(category, tool, message, violations=violations))


def text_result(lines: Iterable[str], structured: JsonObject) -> ToolResult:
    """An answer as lines of text, and as a structure for programs."""
    return ToolResult(content=(TextContent(text="\n".join(lines)),), structured=structured)


def document(model: BaseModel) -> JsonObject:
    """A task, batch or schedule as JSON, without absent fields."""
    return model.model_dump(mode="json", exclude_none=True)


class TaskTools:
    """Runs the task tools for a caller, who sees only its own tasks."""

    def __init__(self, tasks: TaskClient) -> None:
        self._tasks = tasks
        self.handlers: dict[str, Handler] = {
            "get-task": self._get_task,
            "list-tasks": self._list_tasks,
            "cancel-task": self._cancel_task,
            "answer-task": self._answer_task,
        }

    async def _get_task(self, call: LocalCall, arguments: task_tools.GetTaskArguments) -> ToolResult:
        try:
            answer = await self._tasks.answer_or_question(
                call.principal.caller, arguments.task_id, wait_seconds=arguments.wait_secs
            )
        except TaskNotFound:
            answer = TaskAnswer(task=await self._tasks.look_at(call.principal, arguments.task_id))
        if answer.result is not None:
            meta: JsonObject = {**answer.result.meta, "outlast/taskId": answer.task.id}
            return answer.result.model_copy(update={"meta": meta})
        lines = [_task_line(answer.task)]
        for key, question in (answer.task.input_requests or {}).items():
            lines.append(_question_line(answer.task, key, question))
        lines.append("It is still working. Call get-task again, with waitSecs, for its result.")
        return text_result(lines, {"task": document(answer.task)})

    async def _list_tasks(self, call: LocalCall, arguments: task_tools.ListTasksArguments) -> ToolResult:
        listing = TaskListing(
            status=() if arguments.status is None else (arguments.status,),
            tool=arguments.tool,
            page_size=arguments.limit,
            page_token=arguments.page_token,
        )
        page = await self._tasks.list(call.principal, listing)
        lines = [_task_line(task) for task in page.tasks] or ["No task matches."]
        if page.next_page_token:
            lines.append(f"There are more: call list-tasks with pageToken {page.next_page_token}.")
        structured: JsonObject = {"tasks": [document(task) for task in page.tasks]}
        return text_result(lines, {**structured, "nextPageToken": page.next_page_token})

    async def _cancel_task(self, call: LocalCall, arguments: task_tools.TaskArguments) -> ToolResult:
        task = await self._tasks.cancel(call.principal.caller, arguments.task_id)
        return _task_result(task, "It is cancelled once its run has ended; get-task shows when.")

    async def _answer_task(self, call: LocalCall, arguments: task_tools.AnswerTaskArguments) -> ToolResult:
        task = await self._tasks.look_at(call.principal, arguments.task_id)
        question = (task.input_requests or {}).get(arguments.key)
        if question is not None and is_approval(question):
            return ToolResult.failed(_not_for_a_model(task, question))
        if question is not None and question.is_for_program:
            return ToolResult.failed(_for_a_program(question))
        answer = InputAnswer(action=arguments.action, content=arguments.content)
        task = await self._tasks.submit_input(call.principal, arguments.task_id, {arguments.key: answer})
        return _task_result(task, "The answer was accepted. Call get-task for the result.")


def _question_line(task: Task, key: str, question: InputRequest) -> str:
    text = question_text(question)
    if is_approval(question):
        return f"It waits for a person's approval: {text}\n{_how_to_approve(task)}"
    if question.is_for_program:
        return f"It waits for the user's own program: {text}"
    handed = f" It works with: {question.handoff.parameters}." if question.handoff else ""
    return f"It asks ({key}): {text}{handed} Schema: {question.requested_schema}. Use answer-task."


def _how_to_approve(task: Task) -> str:
    return how_to_approve(task.id, task.input_requests or {})


def _for_a_program(question: InputRequest) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        "answer-task",
        f"Only the user's own program can answer this. {question.message}",
        hint="Tell the user, and call get-task, with waitSecs, for the result.",
    )


def _not_for_a_model(task: Task, question: InputRequest) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        "answer-task",
        "A person must approve it: a model cannot approve its own calls.",
        hint=f"Tell the user that {task.tool} waits for them. {_how_to_approve(task)}\n{question_text(question)}",
    )


def _task_line(task: Task) -> str:
    message = f": {task.status_message}" if task.status_message else ""
    return f"{task.id} ({task.tool}) is {task.status}{message}"


def _task_result(task: Task, next_step: str) -> ToolResult:
    return text_result([_task_line(task), next_step], {"task": document(task)})
