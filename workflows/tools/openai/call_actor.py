"""`call-actor` in the UI mode."""

from outlast.workflows.tools.core.call_actor import call_actor_definition
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.openai.widgets import run_widget_meta

DESCRIPTION = """
Start an Actor and answer at once with its run id, while a widget shows the run's progress to the user.
An Actor is a serverless program, named `user/name`; `input` must fit the Actor's own input schema.
Do not wait or poll after this call.
"""


def call_actor_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor and the run widget."""
    return call_actor_definition(executor, DESCRIPTION).meta(**run_widget_meta()).build()
