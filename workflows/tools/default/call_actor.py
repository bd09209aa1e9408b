"""`call-actor` in the default mode."""

from outlast.workflows.tools.core.call_actor import call_actor_definition
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool

DESCRIPTION = """
Run an Actor and wait for its result: answers with the run's state and the first rows of its dataset.
An Actor is a serverless program, named `user/name`; `input` must fit the Actor's own input schema.
Large results stay in the dataset: the answer says how many rows there are and how to get more with get-actor-output.
"""


def call_actor_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor."""
    return call_actor_definition(executor, DESCRIPTION).build()
