"""`create-actor-task`: save an input and options for an Actor under a name."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, answered, hint
from outlast.workflows.tools.common.saved_tasks.arguments import TaskFields
from outlast.workflows.tools.common.saved_tasks.views import SavedTask, saved_task_view
from outlast.workflows.tools.core.saved_tasks import create_saved_task
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class CreateActorTaskArguments(TaskFields):
    """Of which Actor, and what is saved."""

    actor: Id = Field(description="Actor as `user/name`, its id, or the name of one of your own.")


async def create_actor_task(ctx: ToolContext, arguments: CreateActorTaskArguments) -> ToolResult:
    """Save it once, whatever fails in between, and say how it is run."""
    task = saved_task_view(await create_saved_task(ctx, arguments.actor, arguments.as_sent()))
    run = f"Run it with call-actor-task (actorTaskId {task.actor_task_id})."
    return answered(task, f"Saved task {task.name} as {task.actor_task_id}.", hint(ctx, "call-actor-task", run))


CREATE_ACTOR_TASK = (
    tool("create-actor-task")
    .category(Category.TASKS)
    .describe(
        "Save an Actor task: an Actor with an input and options under a name, to be run again, also by a schedule. It "
        "runs nothing."
    )
    .annotate(ToolAnnotations(title="Create Actor task", open_world=False))
    .args(CreateActorTaskArguments)
    .output(SavedTask)
    .server(create_actor_task)
    .seals("input")
    .plans(actors=("actor",))
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
