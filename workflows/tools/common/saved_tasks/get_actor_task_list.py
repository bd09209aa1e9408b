"""`get-actor-task-list`: the caller's saved tasks."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, answered, hint
from outlast.workflows.tools.answers.wording import describe_list, next_list_hint
from outlast.workflows.tools.common.saved_tasks.views import ListedTask, listed_task
from outlast.workflows.tools.core.platform_lists import NewestFirstArguments, entries_of, total_of
from outlast.workflows.tools.core.saved_tasks import TASKS
from outlast.workflows.tools.core.storages import ListPage, next_offset
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class SavedTaskList(ListPage):
    """A page of saved tasks."""

    tasks: list[ListedTask] = Field(description="Without their input.")


async def get_actor_task_list(ctx: ToolContext, arguments: NewestFirstArguments) -> ToolResult:
    """Read the page, a task to a line."""
    offset = arguments.offset
    page = await ctx.platform.get(TASKS, offset=offset, limit=arguments.limit, desc=arguments.desc)
    tasks = [listed_task(entry) for entry in entries_of(page)]
    count, total = len(tasks), total_of(page)
    answer = SavedTaskList(
        tasks=tasks,
        count=count,
        total=total,
        offset=offset,
        next_offset=next_offset(tasks, total=total, offset=offset),
    )
    return answered(
        answer,
        describe_list("saved tasks", count=count, total=total, offset=offset),
        *map(_line, tasks),
        next_list_hint("get-actor-task-list", count=count, total=total, offset=offset),
        hint(ctx, "call-actor-task", "Run one with call-actor-task.") if count else None,
    )


def _line(task: ListedTask) -> str:
    title = f" “{task.title}”" if task.title else ""
    runs = f", run {task.runs} times" if task.runs is not None else ""
    return f"- {task.actor_task_id} ({task.name}){title}: Actor {task.actor_name or task.actor_id}{runs}"


GET_ACTOR_TASK_LIST = (
    tool("get-actor-task-list")
    .category(Category.TASKS)
    .describe("List saved Actor tasks of the authenticated user, newest first. Use it to find one and its id.")
    .annotate(ToolAnnotations(title="Get Actor task list", read_only=True, idempotent=True, open_world=False))
    .args(NewestFirstArguments)
    .output(SavedTaskList)
    .server(get_actor_task_list)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
