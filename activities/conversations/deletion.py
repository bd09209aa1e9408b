"""The activity that deletes a session: its conversation, its outputs, and what Temporal still keeps of it."""

from contextlib import suppress
from datetime import timedelta

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.conversations.contracts import ForgetSessionInput, ForgottenSession
from outlast.activities.conversations.removal import remove_conversation
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import heartbeating
from outlast.activities.outputs.format.errors import OutputDamaged, OutputError
from outlast.activities.outputs.format.locators import scope_of
from outlast.activities.outputs.format.manifest import parse_manifest
from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.activities.outputs.store.removal import delete_output

FORGET_ATTEMPT_TIMEOUT = timedelta(minutes=30)
FORGET_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
FORGET_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(minutes=1)
)


class SessionDeletionActivities:
    """Deletes sessions. An attempt that was killed is completed by the next one."""

    def __init__(self, client: Client, objects: OutputObjects, blocks: ConversationBlocks) -> None:
        """Delete histories through `client`, outputs in `objects`, and conversations in `blocks`."""
        self._client = client
        self._objects = objects
        self._blocks = blocks

    @activity.defn
    async def forget_session(self, request: ForgetSessionInput) -> ForgottenSession:
        """Delete the conversation, the outputs of the session's calls, and the histories of its ended turns."""
        with as_activity_failure():
            async with heartbeating():
                await remove_conversation(self._objects, self._blocks, request.owner, reason="deleted")
                outputs = await self._delete_outputs(request)
                for workflow_id in request.ended_workflows:
                    await self._delete_history(workflow_id)
                return ForgottenSession(outputs=outputs, histories=len(request.ended_workflows))

    async def _delete_outputs(self, request: ForgetSessionInput) -> int:
        """The owner's manifests name the session whose call wrote them. The next sweep deletes the parts."""
        deleted = 0
        async for entry in self._objects.list(f"manifests/{scope_of(request.owner.caller_id)}"):
            text = await self._objects.get(entry.key)
            # One that is damaged or has expired cannot be read any more; the sweep removes it.
            with suppress(OutputDamaged, OutputError):
                manifest = parse_manifest(text) if text is not None else None
                if manifest is not None and manifest.session_id == request.owner.session_id:
                    await delete_output(self._objects, manifest.locator, request.owner.caller_id)
                    deleted += 1
        return deleted

    async def _delete_history(self, workflow_id: str) -> None:
        execution = WorkflowExecution(workflow_id=workflow_id)
        request = DeleteWorkflowExecutionRequest(namespace=self._client.namespace, workflow_execution=execution)
        try:
            await self._client.workflow_service.delete_workflow_execution(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
