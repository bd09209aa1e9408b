"""One ordered list around every handler; adding a middleware is one line."""

from collections.abc import Awaitable, Callable

import pytest
from temporalio.worker import Replayer

from outlast.worker.connection import OutlastPlugin
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.framework import middleware
from outlast.workflows.tools.framework.tool import Tool
from tests.unit.workflows.test_replay import history

SEEN: list[str] = []


async def counting(_ctx: HandlerContext, definition: Tool, proceed: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    SEEN.append(f"before {definition.name}")
    result = await proceed()
    SEEN.append(f"after {definition.name}")
    return result


def test_the_order_is_logging_abort_permission_compression_results() -> None:
    names = [wrapper.__name__ for wrapper in middleware.PIPELINE]
    assert names == ["logging", "abort", "permission", "compression", "results"]


async def test_adding_one_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "PIPELINE", (*middleware.PIPELINE, counting))
    replayer = Replayer(workflows=[ToolCallWorkflow, SessionWorkflow], plugins=[OutlastPlugin()])
    await replayer.replay_workflow(history("unreleased/dataset_items"))
    assert SEEN == ["before get-dataset-items", "after get-dataset-items"]
