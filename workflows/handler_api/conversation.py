"""Messages to the user, the conversation's workspace, and the operator's skills, from workflow code."""

from typing import Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT
    from outlast.activities.skills import (
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

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.sessions import POSTED_SIGNAL, Posted, session_workflow_id
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import CallActivities, remaining, tool_errors
from outlast.workflows.handler_api.failures import ToolError, envelope_of


class Sent(Contract):
    """Places that a message reached. `refused` is the error if the webhook did not accept it."""

    session: bool
    webhook: bool
    refused: ErrorEnvelope | None = None


class UserMessages(CallActivities):
    """Sends messages to the user in the conversation of a call."""

    async def post(self, kind: Literal["update", "reaction"], text: str) -> Sent:
        """Send `text` once to the session and the webhook. Raises `ToolError` if neither exists."""
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
        """Add an event to the session. Return False if the call has no session, or if an operator ended it."""
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
        """Post to the webhook. Return False if the operator has configured none: that setting is the worker's."""
        delivery = Delivery(
            kind=kind, text=text, task_id=task_id, session_id=self._call.session_id, message_id=self._call.message_id
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


class Workspaces(CallActivities):
    """The folder of a call's conversation, or of its caller when the call has no conversation."""

    def __init__(self, call: ToolCall) -> None:
        super().__init__(call)
        self._owner = WorkspaceOwner(caller_id=call.caller.id, session_id=call.session_id)

    async def read(self, path: str, *, offset: int, limit: int) -> FileLines:
        """Read lines of a file."""
        request = ReadFileInput(owner=self._owner, path=path, offset=offset, limit=limit)
        return await self._do(WorkspaceActivities.read_workspace_file, request, "read a file", READ_FILE_RETRY_POLICY)

    async def run(self, command: str, *, timeout_seconds: float) -> CommandOutcome:
        """Run a command at most once. If it is cancelled, it returns after all processes have ended."""
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
        """Describe the failure: a command whose worker died may or may not have run."""
        if not isinstance(error.cause, ActivityTimeoutError):
            return envelope_of(error, tool=self._call.tool)
        has_died = error.cause.type is TimeoutType.HEARTBEAT
        reason = (
            "The worker died while the command ran"
            if has_died
            else "The task's time was over before the command had ended"
        )
        return interrupted(reason).model_copy(update={"tool": self._call.tool})


class Skills(CallActivities):
    """Loads the operator's skills. Methods raise `ToolError` if the skill or file does not exist."""

    async def load(self, name: str) -> SkillDocument:
        """Load the main document of a skill."""
        return await self._do(SkillActivities.load_skill, SkillInput(name=name), f"load {name}", SKILL_RETRY_POLICY)

    async def load_file(self, name: str, path: str) -> SkillFile:
        """Load a supporting file of a skill."""
        request = SkillFileInput(name=name, path=path)
        return await self._do(SkillActivities.load_skill_file, request, f"load a file of {name}", SKILL_RETRY_POLICY)
