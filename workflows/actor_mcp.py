"""Tools of Actors that are MCP servers, from workflow code."""

from datetime import timedelta

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from activities.actor_mcp import CALL_HEARTBEAT_TIMEOUT, CALL_RETRY_POLICY, ActorMcpActivities

from activities.actor_mcp_models import CallMcpToolInput, ListMcpToolsInput, McpAnswer, McpTool
from workflows.failures import ToolError, envelope_of
from workflows.models import ToolCall
from workflows.queues import RUNS_TASK_QUEUE
from workflows.reads import read


class ActorMcp:
    """What a handler may do with Actors that are MCP servers. Every method raises `ToolError` when it is refused."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def tools(self, actor: str) -> tuple[McpTool, ...]:
        """The tools of the server; starts the Actor when it sleeps."""
        order = ListMcpToolsInput(caller=self._call.caller, actor=actor)
        answer = await read(self._call, ActorMcpActivities.list_mcp_tools, order, summary=f"list tools of {actor}")
        return answer.tools

    async def call(self, actor: str, tool: str, arguments: dict[str, JsonValue]) -> McpAnswer:
        """What the tool answers, value for value. It is called at most once, whatever fails."""
        order = CallMcpToolInput(caller=self._call.caller, actor=actor, tool=tool, arguments=arguments)
        deadline = timedelta(seconds=self._call.options.deadline_seconds)
        try:
            return await workflow.execute_activity_method(
                ActorMcpActivities.call_mcp_tool,
                order,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=deadline,
                schedule_to_close_timeout=deadline,
                heartbeat_timeout=CALL_HEARTBEAT_TIMEOUT,
                retry_policy=CALL_RETRY_POLICY,
                cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"call {tool} of {actor}",
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise ToolError(envelope_of(error, tool=self._call.tool)) from error
