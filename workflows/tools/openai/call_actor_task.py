"""`call-actor-task` in the UI mode."""

from outlast.workflows.tools.core.call_actor import call_actor_task_definition
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.openai.widgets import run_widget_meta

DESCRIPTION = """
Start a saved Actor task and answer at once with its run id, while a widget shows the run's progress to the user.
A saved task is an Actor with an input and options under a name; given values replace saved ones, for this run only. Do
not wait or poll after this call.
"""


def call_actor_task_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor and the run widget."""
    return call_actor_task_definition(executor, DESCRIPTION).meta(**run_widget_meta()).build()
