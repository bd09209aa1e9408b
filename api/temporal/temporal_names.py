"""Names of workflows, activities and updates in histories, taken from their definitions."""

from collections.abc import Callable
from typing import Any, Final

from outlast.activities.batches.activities import BatchActivities
from outlast.activities.mcp_actors.activities import McpActorActivities
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.platform_requests.activities import RunWatchActivities
from outlast.activities.runs.activities import RunActivities
from outlast.activities.runs.resurrection import RunResurrections
from outlast.activities.storages.datasets import DatasetActivities
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.framework.plain_functions import RUN_PLAIN_FUNCTION


def _name_of(definition: Callable[..., Any] | type) -> str:
    """The name that Temporal uses: definitions set none, so it is the name in the code."""
    return definition.__name__


SESSION_WORKFLOW: Final = _name_of(SessionWorkflow)
TASK_WORKFLOW: Final = _name_of(ToolCallWorkflow)
START_RUN: Final = _name_of(RunActivities.start_run)
WAIT_FOR_RUN: Final = _name_of(RunActivities.wait_for_run)
RESURRECT_RUN: Final = _name_of(RunResurrections.resurrect_run)
ABORT_RUN: Final = _name_of(RunActivities.abort_run)
CALL_MCP_TOOL: Final = _name_of(McpActorActivities.call_mcp_tool)
PLAIN_FUNCTION: Final = RUN_PLAIN_FUNCTION
WATCH_RUN: Final = _name_of(RunWatchActivities.watch_run)
FETCH_DATASET_ITEMS: Final = _name_of(DatasetActivities.fetch_dataset_items)
STORE_DATASET: Final = _name_of(OutputActivities.store_dataset)
STORE_RECORD: Final = _name_of(OutputActivities.store_record)
SUBMIT_INPUT: Final = _name_of(ToolCallWorkflow.submit_input)
STORE_CONTENT: Final = _name_of(OutputActivities.store_content)
CARRY_ON_BATCH: Final = _name_of(BatchActivities.carry_on_batch)
