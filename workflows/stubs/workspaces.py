"""The conversation's workspace, from workflow code: reading its files, running commands in it."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from outlast.activities.workspaces.activities import (
        COMMAND_HEARTBEAT_TIMEOUT,
        COMMAND_RETRY_POLICY,
        READ_FILE_RETRY_POLICY,
        CommandInput,
        CommandOutcome,
        FileLines,
        ReadFileInput,
        WorkspaceActivities,
        WorkspaceOwner,
        interrupted,
    )

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity, tool_errors
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.failures import envelope_of


class Workspaces:
    """The folder of a call's conversation, or of its caller when the call has no conversation."""

    def __init__(self, call: ToolCall) -> None:
        """Work in the folder of `call`."""
        self._call = call
        self._owner = WorkspaceOwner(caller_id=call.caller.id, session_id=call.session_id)

    async def read(self, path: str, *, offset: int, limit: int) -> FileLines:
        """Lines of a file. Raises `ToolError`."""
        request = ReadFileInput(owner=self._owner, path=path, offset=offset, limit=limit)
        method = WorkspaceActivities.read_workspace_file
        return await call_activity(
            self._call, method, request, summary="read a file", retry_policy=READ_FILE_RETRY_POLICY
        )

    async def run(self, command: str, *, timeout_seconds: float) -> CommandOutcome:
        """Run a command, at most once. Cancelled, it returns after all processes have ended. Raises `ToolError`."""
        with tool_errors(self._call.tool, self._describe):
            return await workflow.execute_activity_method(
                WorkspaceActivities.run_workspace_command,
                CommandInput(owner=self._owner, command=command, timeout_seconds=timeout_seconds),
                schedule_to_close_timeout=remaining(self._call),
                heartbeat_timeout=COMMAND_HEARTBEAT_TIMEOUT,
                retry_policy=COMMAND_RETRY_POLICY,
                cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary="run a command",
            )

    def _describe(self, error: ActivityError) -> ErrorEnvelope:
        """A command whose worker died may or may not have run: its error says so."""
        if isinstance(error.cause, ActivityTimeoutError):
            return interrupted(_why(error.cause)).model_copy(update={"tool": self._call.tool})
        return envelope_of(error, tool=self._call.tool)


def _why(timeout: ActivityTimeoutError) -> str:
    if timeout.type is TimeoutType.HEARTBEAT:
        return "The worker died while the command ran"
    return "The task's time was over before the command had ended"
