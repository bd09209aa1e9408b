"""Which calls the API may carry out itself."""

import dataclasses

import pytest

from outlast import HandlerContext, NoArguments, ToolResult
from outlast.api.tasks.admission import is_quick_read
from outlast.workflows.tools.common.abort_actor_run import ABORT_ACTOR_RUN
from outlast.workflows.tools.common.get_actor_log import GET_ACTOR_LOG
from outlast.workflows.tools.common.get_dataset_items import GET_DATASET_ITEMS
from outlast.workflows.tools.framework.tool import Tool


async def _of_another_package(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("tool", "is_quick"),
    [
        (GET_DATASET_ITEMS, True),
        (GET_ACTOR_LOG, True),
        (ABORT_ACTOR_RUN, False),
        (dataclasses.replace(GET_DATASET_ITEMS, calls_actor=True), False),
        (dataclasses.replace(GET_DATASET_ITEMS, handler=_of_another_package), False),
    ],
    ids=["rows", "log", "changes something", "starts a run", "of another package"],
)
def test_what_only_reads_and_is_of_outlast_is_quick(tool: Tool, is_quick: bool) -> None:
    assert is_quick_read(tool) is is_quick
