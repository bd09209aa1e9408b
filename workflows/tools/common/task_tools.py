"""Tools that look after tasks, for clients that know no tasks. The front door answers them itself, from Temporal."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.workflows.contracts.tool_calls import TaskStatus
from outlast.workflows.tools.framework.ids import Id, Token
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, tool

MAX_WAIT_SECONDS = 50
"""Many clients give up after 60 seconds."""


class TaskArguments(Arguments):
    """Names a task."""

    task_id: Id = Field(alias="taskId", description="Id of the task.")


class GetTaskArguments(TaskArguments):
    """Which task, and how long to wait for its result."""

    wait_secs: float = Field(
        default=0, ge=0, le=MAX_WAIT_SECONDS, alias="waitSecs", description="Seconds to wait for the result."
    )


class ListTasksArguments(Arguments):
    """Which tasks."""

    status: TaskStatus | None = Field(default=None, description="Only tasks in this state.")
    tool: Id | None = Field(default=None, description="Only calls of this tool.")
    limit: int = Field(default=20, ge=1, le=100, description="Tasks to list at most.")
    page_token: Token | None = Field(
        default=None, alias="pageToken", description="Where to go on, from the last answer."
    )


class AnswerTaskArguments(TaskArguments):
    """Which task, and the answer to one of its questions."""

    key: Id = Field(description="Key of the question, as the task's state names it.")
    action: Literal["accept", "decline", "cancel"] = Field(default="accept", description="What the user decided.")
    content: dict[str, JsonValue] = Field(
        default_factory=dict, description="The answer, fitting the question's schema."
    )


def _task_tool(name: str, title: str, description: str, model: type[Arguments], *, read_only: bool) -> Tool:
    annotations = ToolAnnotations(
        title=title, read_only=read_only, destructive=name == "cancel-task", idempotent=True, open_world=False
    )
    return (
        tool(name).category(Category.RUNS).describe(description).annotate(annotations).args(model).front_door().build()
    )


TASK_TOOLS: tuple[Tool, ...] = (
    _task_tool(
        "get-task",
        "Get task",
        "Get the state of a task and, when it has ended, its result. Set `waitSecs` to wait for the result.",
        GetTaskArguments,
        read_only=True,
    ),
    _task_tool(
        "list-tasks",
        "List tasks",
        "List your tasks, open ones first, then those that ended last. Use it to find a task whose id was lost.",
        ListTasksArguments,
        read_only=True,
    ),
    _task_tool(
        "cancel-task",
        "Cancel task",
        "Cancel a task and abort the Actor run that it started, so that it costs nothing more.",
        TaskArguments,
        read_only=False,
    ),
    _task_tool(
        "answer-task",
        "Answer task",
        "Answer a question that a task in state input_required asks. The task's state has the questions and schemas.",
        AnswerTaskArguments,
        read_only=False,
    ),
)
