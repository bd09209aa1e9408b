"""Messages to the user, the conversation's workspace, and the operator's skills, from workflow code."""

from typing import Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT
    from outlast.activities.skills.activities import (
        SKILL_RETRY_POLICY,
        SkillActivities,
        SkillDocument,
        SkillFile,
        SkillFileInput,
        SkillInput,
    )
    from outlast.activities.user_messages import WEBHOOK_RETRY_POLICY, Delivery, ResponderActivities
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

from outlast.activities.contracts import Contract
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.sessions import POSTED_SIGNAL, Posted, session_workflow_id
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import call_activity, remaining, tool_errors
from outlast.workflows.handler_api.failures import ToolError, envelope_of


class Sent(Contract):
    """Places that a message reached. `refused` is the error if the webhook did not accept it."""

    session: bool
    webhook: bool
    refused: ErrorEnvelope | None = None


class UserMessages:
    """Sends messages to the user on behalf of one call."""

    def __init__(self, call: ToolCall) -> None:
        """Send to the conversation of `call`."""
        self._call = call

    async def post(self, kind: Literal["update", "reaction"], text: str) -> Sent:
        """Send `text` once to every place that exists. Raises `ToolError` when there is none."""
        task_id = workflow.info().workflow_id
        in_session = await self._publish(
            Posted(kind=kind, text=text, task_id=task_id, tool=self._call.tool, message_id=self._call.message_id)
        )
        refused: ErrorEnvelope | None = None
        delivered = False
        try:
            with tool_errors(self._call.tool):
                delivered = await self._deliver(kind, text, task_id)
        except ToolError as error:
            refused = error.envelope
        if not in_session and not delivered:
            raise ToolError(refused or self._nobody_listens())
        return Sent(session=in_session, webhook=delivered, refused=refused)

    async def _publish(self, posted: Posted) -> bool:
        """Add an event to the session; False when the call has no session, or an operator ended it."""
        if self._call.session_id is None:
            return False
        session = workflow.get_external_workflow_handle(
            session_workflow_id(self._call.caller.id, self._call.session_id)
        )
        try:
            await session.signal(POSTED_SIGNAL, posted)
        except ApplicationError as error:
            workflow.logger.warning("Session %s takes no events: %s", self._call.session_id, error)
            return False
        return True

    async def _deliver(self, kind: Literal["update", "reaction"], text: str, task_id: str) -> bool:
        """Post to the webhook; False when the operator has configured none: only the worker knows."""
        delivery = Delivery(
            kind=kind,
            text=text,
            task_id=task_id,
            session_id=self._call.session_id,
            message_id=self._call.message_id,
        )
        answer = await workflow.execute_activity_method(
            ResponderActivities.deliver_to_webhook,
            delivery,
            start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(self._call),
            heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
            retry_policy=WEBHOOK_RETRY_POLICY,
            summary=f"deliver {kind}",
        )
        return answer.delivered

    def _nobody_listens(self) -> ErrorEnvelope:
        return ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            self._call.tool,
            "Nobody would see it: the call belongs to no session that takes events, and there is no webhook.",
            hint=(
                "Name the conversation in the call (`session_id`; over MCP `outlast/session-id` in `_meta`), or have "
                "the operator set OUTLAST_RESPONDER_WEBHOOK_URL. Do not call again without that."
            ),
        )


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


class Skills:
    """Loads the operator's skills. Every method raises `ToolError` when the skill or file does not exist."""

    def __init__(self, call: ToolCall) -> None:
        """Read for `call`."""
        self._call = call

    async def load(self, name: str) -> SkillDocument:
        """The main document of a skill."""
        method, request = SkillActivities.load_skill, SkillInput(name=name)
        return await call_activity(self._call, method, request, summary=f"load {name}", retry_policy=SKILL_RETRY_POLICY)

    async def load_file(self, name: str, path: str) -> SkillFile:
        """A supporting file of a skill."""
        method, request = SkillActivities.load_skill_file, SkillFileInput(name=name, path=path)
        return await call_activity(
            self._call, method, request, summary=f"load a file of {name}", retry_policy=SKILL_RETRY_POLICY
        )
