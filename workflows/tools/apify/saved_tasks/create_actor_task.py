"""`create-actor-task`: save an input and options for an Actor under a name."""

from typing import Any

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.saved_tasks.saved_tasks import changes_of, task_answer
from outlast.workflows.tools.apify.schemas.build import arguments, required_text
from outlast.workflows.tools.apify.schemas.saved_tasks import FIELDS, TASK
from outlast.workflows.tools.core.saved_tasks import create_saved_task
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Save an Actor task: an Actor with an input and options under a name, to be run again or by a schedule. It runs nothing.
"""


@failing_as(lambda _given, _envelope: None)
async def create_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Save it once, whatever fails in between."""
    # Clients of that server find the input in the answer.
    task = await create_saved_task(ctx, given["actorId"], changes_of(given), hidden=())
    sentence = f"Saved task {task.get('name')} (taskId={task.get('id')})."
    return task_answer(task, sentence, limit_bytes=ctx.call.output.inline_limit_bytes)


CREATE_ACTOR_TASK = (
    begun(
        "create-actor-task",
        Category.TASKS,
        ToolAnnotations(title="Create Actor task", idempotent=False, open_world=False),
        does=DESCRIPTION,
        arguments=arguments(
            {"actorId": required_text("The Actor: its id, `user/name`, or the name of one of your own."), **FIELDS},
            required=("actorId",),
        ),
        answer=TASK,
    )
    .server(create_actor_task)
    .seals("input")
    .plans(actors=("actorId",))
    .build()
)
