"""`call-actor-task` in the default mode."""

from outlast.workflows.tools.core.call_actor import call_actor_task_definition
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool

DESCRIPTION = """
Run a saved Actor task and wait for its result: answers with the run's state and the first rows of its dataset.
A saved task is an Actor with an input and options under a name; given values replace saved ones, for this run only.
Large results stay in the dataset: the answer says how many rows there are and how to get more.
"""


def call_actor_task_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor."""
    return call_actor_task_definition(executor, DESCRIPTION).build()
