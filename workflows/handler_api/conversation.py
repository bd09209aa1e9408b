"""Stored outputs, messages to the user, the conversation's workspace, and the operator's skills, from workflow code."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Literal

from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.outputs import contracts as outputs
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE
from outlast.workflows.contracts.sessions import POSTED_SIGNAL, Posted, session_workflow_id
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import CallActivities, Input, Result, remaining, tool_errors
from outlast.workflows.handler_api.failures import ToolError, envelope_of
from outlast.workflows.handler_api.observability import timed

with workflow.unsafe.imports_passed_through():
    from outlast.activities.outputs.activities import (
        RESTORE_ATTEMPT_TIMEOUT,
        RESTORE_RETRY_POLICY,
        STORE_ATTEMPT_TIMEOUT,
        STORE_HEARTBEAT_TIMEOUT,
        STORE_RETRY_POLICY,
        OutputActivities,
    )
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
    from outlast.activities.workspaces import activities


class Outputs(CallActivities):
    """Stores outputs of any size under the call's policy, and restores them."""

    @property
    def scope(self) -> outputs.OutputScope:
        """Owner of the outputs: caller, conversation and call."""
        task_id = workflow.info().workflow_id
        return outputs.OutputScope(
            caller_id=self._call.caller.id,
            session_id=self._call.session_id,
            message_id=self._call.message_id,
            tool_call_id=self._call.tool_call_id or task_id,
            task_id=task_id,
        )

    @property
    def _stored_for(self) -> dict[str, Any]:
        return {"scope": self.scope, "ttl_seconds": self._call.output.ttl_seconds}

    async def store_dataset(self, dataset_id: str) -> outputs.StoredDataset:
        """Copy a whole dataset of any size into the store."""
        request = outputs.StoreDatasetInput(caller=self._call.caller, dataset_id=dataset_id, **self._stored_for)
        return await self._store(OutputActivities.store_dataset, request, f"store dataset {dataset_id}")

    async def store_record(self, store_id: str, key: str) -> outputs.StoredOutput:
        """Copy a whole record of a key-value store into the store."""
        request = outputs.StoreRecordInput(caller=self._call.caller, store_id=store_id, key=key, **self._stored_for)
        return await self._store(OutputActivities.store_record, request, f"store a record of store {store_id}")

    async def store_text(self, text: str, *, content_type: str = "text/plain") -> outputs.StoredOutput:
        """Store a text."""
        return await self._store_content(kind="text", content_type=content_type, text=text)

    async def store_value(self, value: JsonValue) -> outputs.StoredOutput:
        """Store a JSON value."""
        return await self._store_content(kind="json", content_type="application/json", value=value)

    async def store_blob(self, blob_base64: str, *, content_type: str) -> outputs.StoredOutput:
        """Store bytes, given in base64."""
        return await self._store_content(kind="binary", content_type=content_type, blob_base64=blob_base64)

    async def restore(self, request: outputs.RestoreOutputInput) -> outputs.RestoredOutput:
        """Read a part of a stored output."""
        with timed("fetch"):
            return await self._run(
                OutputActivities.restore_output,
                request,
                f"restore {request.locator}",
                RESTORE_ATTEMPT_TIMEOUT,
                RESTORE_RETRY_POLICY,
            )

    async def _store_content(self, **content: Any) -> outputs.StoredOutput:
        request = outputs.StoreContentInput(**content, **self._stored_for)
        return await self._store(OutputActivities.store_content, request, "store the answer")

    async def _store(self, method: Callable[[Any, Input], Awaitable[Result]], request: Input, summary: str) -> Result:
        with timed("store"):
            return await self._run(method, request, summary, STORE_ATTEMPT_TIMEOUT, STORE_RETRY_POLICY)

    async def _run(
        self,
        method: Callable[[Any, Input], Awaitable[Result]],
        request: Input,
        summary: str,
        attempt_timeout: timedelta,
        retry_policy: RetryPolicy,
    ) -> Result:
        with tool_errors(self._call.tool):
            return await workflow.execute_activity_method(
                method,
                request,
                task_queue=OUTPUTS_TASK_QUEUE,
                start_to_close_timeout=attempt_timeout,
                schedule_to_close_timeout=remaining(self._call),
                heartbeat_timeout=STORE_HEARTBEAT_TIMEOUT,
                retry_policy=retry_policy,
                summary=summary,
            )


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
            workflow.logger.warning("Session %s does not accept events: %s", self._call.session_id, error)
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
            "The message has no recipient: the call has no session that accepts events, and no webhook is set.",
            hint=(
                "Name the conversation in the call (`session_id`; over MCP `outlast/session-id` in `_meta`), or have "
                "the operator set OUTLAST_RESPONDER_WEBHOOK_URL. Do not call again without that."
            ),
        )


class Workspaces(CallActivities):
    """The folder of a call's conversation, or of its caller when the call has no conversation."""

    def __init__(self, call: ToolCall) -> None:
        super().__init__(call)
        self._owner = activities.WorkspaceOwner(caller_id=call.caller.id, session_id=call.session_id)

    async def read(self, path: str, *, offset: int, limit: int) -> activities.FileLines:
        """Read lines of a file."""
        request = activities.ReadFileInput(owner=self._owner, path=path, offset=offset, limit=limit)
        return await self._do(
            activities.WorkspaceActivities.read_workspace_file,
            request,
            "read a file",
            activities.READ_FILE_RETRY_POLICY,
        )

    async def run(self, command: str, *, timeout_seconds: float) -> activities.CommandOutcome:
        """Run a command at most once. If it is cancelled, it returns after all processes have ended."""
        with tool_errors(self._call.tool, self._describe):
            return await workflow.execute_activity_method(
                activities.WorkspaceActivities.run_workspace_command,
                activities.CommandInput(owner=self._owner, command=command, timeout_seconds=timeout_seconds),
                schedule_to_close_timeout=remaining(self._call),
                heartbeat_timeout=activities.COMMAND_HEARTBEAT_TIMEOUT,
                retry_policy=activities.COMMAND_RETRY_POLICY,
                cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary="run a command",
            )

    def _describe(self, error: ActivityError) -> ErrorEnvelope:
        """Describe the failure: a command whose worker stopped may or may not have run."""
        if not isinstance(error.cause, ActivityTimeoutError):
            return envelope_of(error, tool=self._call.tool)
        has_died = error.cause.type is TimeoutType.HEARTBEAT
        reason = (
            "The worker stopped while the command was running"
            if has_died
            else "The task's deadline passed before the command ended"
        )
        return activities.interrupted(reason).model_copy(update={"tool": self._call.tool})


class Skills(CallActivities):
    """Loads the operator's skills. Methods raise `ToolError` if the skill or file does not exist."""

    async def load(self, name: str) -> SkillDocument:
        """Load the main document of a skill."""
        return await self._do(SkillActivities.load_skill, SkillInput(name=name), f"load {name}", SKILL_RETRY_POLICY)

    async def load_file(self, name: str, path: str) -> SkillFile:
        """Load a supporting file of a skill."""
        request = SkillFileInput(name=name, path=path)
        return await self._do(SkillActivities.load_skill_file, request, f"load a file of {name}", SKILL_RETRY_POLICY)
