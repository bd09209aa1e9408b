"""`call-actor` in the throw-away mode."""

from outlast.workflows.tools.core.call_actor import call_actor_definition
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool


def call_actor_tool(executor: ActorExecutor) -> Tool:
    return call_actor_definition(executor, "Run an Actor and show its rows as an artifact.").build()
