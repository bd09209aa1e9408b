"""Tools that manage tasks, for clients without support for tasks. Entry points answer them, from Temporal."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.workflows.contracts.tool_calls import TaskStatus
from outlast.workflows.tools.framework.ids import Id, Token
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, front_door_tool, reads

MAX_WAIT_SECONDS = 50
"""Many clients give up after 60 seconds."""


class TaskArguments(Arguments):
    """A task."""

    task_id: Id = Field(alias="taskId", description="Id of the task.")


class GetTaskArguments(TaskArguments):
    """A task, and the wait for its result."""

    wait_secs: float = Field(
        default=0, ge=0, le=MAX_WAIT_SECONDS, alias="waitSecs", description="Seconds to wait for the result."
    )


class ListTasksArguments(Arguments):
    """Tasks to list."""

    status: TaskStatus | None = Field(default=None, description="Only tasks in this state.")
    tool: Id | None = Field(default=None, description="Only calls of this tool.")
    limit: int = Field(default=20, ge=1, le=100, description="Maximum number of tasks.")
    page_token: Token | None = Field(
        default=None, alias="pageToken", description="Token of the next page, from the last answer."
    )


class AnswerTaskArguments(TaskArguments):
    """A task, and the answer to one of its questions."""

    key: Id = Field(description="Key of the question, as the task's state names it.")
    action: Literal["accept", "decline", "cancel"] = Field(default="accept", description="What the user decided.")
    content: dict[str, JsonValue] = Field(
        default_factory=dict, description="The answer, which matches the question's schema."
    )


TASK_TOOLS: tuple[Tool, ...] = (
    front_door_tool(
        "get-task",
        Category.RUNS,
        reads("Get task"),
        "Get the state of a task and, when it has ended, its result. Set `waitSecs` to wait for the result.",
        GetTaskArguments,
    ),
    front_door_tool(
        "list-tasks",
        Category.RUNS,
        reads("List tasks"),
        "List your tasks, open ones first, then the most recently ended. Use it to find a task whose id was lost.",
        ListTasksArguments,
    ),
    front_door_tool(
        "cancel-task",
        Category.RUNS,
        ToolAnnotations(title="Cancel task", destructive=True, idempotent=True, open_world=False),
        "Cancel a task and abort the Actor run that it started, so that it costs nothing more.",
        TaskArguments,
    ),
    front_door_tool(
        "answer-task",
        Category.RUNS,
        ToolAnnotations(title="Answer task", idempotent=True, open_world=False),
        "Answer a question of a task in state input_required. The task's state has the questions and schemas.",
        AnswerTaskArguments,
    ),
)
