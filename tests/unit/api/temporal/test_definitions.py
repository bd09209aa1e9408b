"""The names that history readers look for are those under which workers register the definitions."""

from collections.abc import Callable
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.contrib.workflow_streams import _stream

from outlast.activities.llm.streaming import PUBLISH_SIGNAL
from outlast.activities.mcp_servers.activities import McpActorActivities
from outlast.activities.mcp_servers.servers import McpServerActivities
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.runs.activities import RunActivities
from outlast.activities.storages.datasets import DatasetActivities
from outlast.api.temporal import history_details
from outlast.workflows.tool_call import ToolCallWorkflow


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (history_details.WAIT_FOR_RUN, RunActivities.wait_for_run),
        (history_details.ABORT_RUN, RunActivities.abort_run),
        (history_details.CALL_MCP_TOOL, McpActorActivities.call_mcp_tool),
        (history_details.CALL_SERVER_TOOL, McpServerActivities.call_server_tool),
        (history_details.FETCH_DATASET_ITEMS, DatasetActivities.fetch_dataset_items),
        (history_details.STORE_DATASET, OutputActivities.store_dataset),
        (history_details.STORE_RECORD, OutputActivities.store_record),
        (history_details.STORE_CONTENT, OutputActivities.store_content),
    ],
)
def test_an_activity_is_registered_under_the_name_that_is_looked_for(name: str, method: Callable[..., Any]) -> None:
    assert activity._Definition.must_from_callable(method).name == name  # pyright: ignore[reportPrivateUsage]


def test_the_workflow_and_its_update_are_registered_under_the_names_that_are_looked_for() -> None:
    registered = workflow._Definition.must_from_class(ToolCallWorkflow)  # pyright: ignore[reportPrivateUsage]
    assert registered.name == history_details.TASK_WORKFLOW
    assert history_details.SUBMIT_INPUT in registered.updates


def test_streamed_text_comes_by_the_sdks_own_signal() -> None:
    assert _stream._PUBLISH_SIGNAL == PUBLISH_SIGNAL  # pyright: ignore[reportPrivateUsage]
