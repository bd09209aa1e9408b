"""Activities that store the messages of a turn, and delete a session."""

import asyncio
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

from pydantic_core import to_json
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RetryPolicy

from outlast.activities.contracts import ErrorCategory
from outlast.activities.conversations import contracts as conversations
from outlast.activities.conversations.blocks import ConversationBlocks, remove_conversation
from outlast.activities.failures.classify import ToolFailure, as_activity_failure
from outlast.activities.failures.exceptions import OutputDamaged, OutputError
from outlast.activities.heartbeat import activity_scope
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.output_format import locators_in, parse_locator
from outlast.activities.outputs.reader import delete_output, load_manifest
from outlast.activities.workflow_requests import described, ignore_missing

KEEP_ATTEMPT_TIMEOUT = timedelta(minutes=1)
KEEP_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30))
"""Without an end: a turn waits for its store, since what is not kept would be forgotten."""


class ConversationActivities:
    """Writes conversations."""

    def __init__(self, blocks: ConversationBlocks) -> None:
        self._blocks = blocks

    @activity.defn
    async def keep_messages(self, request: conversations.KeepMessagesInput) -> conversations.ConversationRef:
        """Add messages to a conversation and return the longer one. A repeated attempt gives the same reference."""
        with as_activity_failure():
            block = conversations.Block(
                messages=request.messages,
                about=request.about,
                continues=request.continues,
                repeated=request.repeated,
            )
            with store_awaited():
                return await self._blocks.append(request.owner, request.conversation, block)


@contextmanager
def store_awaited() -> Generator[None]:
    """Make a store that cannot be written a retryable failure: elsewhere a full disk is permanent, a turn can wait."""
    try:
        yield
    except OSError as error:
        message = f"The conversation cannot be stored: {error}"
        raise ToolFailure.of(ErrorCategory.FILESYSTEM, message, retryable=True) from error


_AT_ONCE = 16
FORGET_ATTEMPT_TIMEOUT = timedelta(minutes=30)
FORGET_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
FORGET_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))


class SessionDeletionActivities:
    """Deletes sessions. An attempt that was killed is completed by the next one."""

    def __init__(self, client: Client, objects: OutputObjects, blocks: ConversationBlocks) -> None:
        self._client = client
        self._objects = objects
        self._blocks = blocks

    @activity.defn
    async def forget_session(self, request: conversations.ForgetSessionInput) -> conversations.ForgottenSession:
        """Delete the outputs of the session's calls, the conversation, and the histories of its turns and tasks. What
        still runs stays: it began after the deletion was asked for, for the session that has the id next.
        """
        async with activity_scope():
            ended, locators = await self._ended(request)
            locators |= await self._locators_of_conversation(request.owner)
            # First the outputs: a repeated attempt has to find what names them.
            outputs = await self._delete_outputs(request.owner, locators)
            await remove_conversation(self._objects, self._blocks, request.owner, reason="deleted")
            for workflow_id in ended:
                await self._delete_history(workflow_id)
            return conversations.ForgottenSession(outputs=outputs, histories=len(ended))

    async def _ended(self, request: conversations.ForgetSessionInput) -> tuple[list[str], set[str]]:
        """The session's turns and tasks that have ended, and the outputs that their memos name. Lists lag behind, so
        each is described itself, a few at a time. Of thousands only the names are held.
        """
        found = {workflow.id async for workflow in self._client.list_workflows(request.query)}
        ordered = sorted({*found, *request.workflows} - {request.owner.workflow_id})
        ended: list[str] = []
        locators: set[str] = set()
        for start in range(0, len(ordered), _AT_ONCE):
            batch = ordered[start : start + _AT_ONCE]
            for one in await asyncio.gather(*(described(self._client, workflow_id) for workflow_id in batch)):
                if one and one.status is not WorkflowExecutionStatus.RUNNING:
                    ended.append(one.id)
                    locators.update(locators_in(to_json(await one.memo()).decode()))
        return ended, locators

    async def _locators_of_conversation(self, owner: conversations.ConversationOwner) -> set[str]:
        """Return the outputs that the conversation names."""
        found: set[str] = set()
        async for block in self._blocks.written(owner):
            found.update(locators_in(to_json(block).decode()))
        return found

    async def _delete_outputs(self, owner: conversations.ConversationOwner, locators: Collection[str]) -> int:
        """Delete those that calls of this session have written. The next sweep deletes the parts."""
        deleted = 0
        for locator in sorted(locators):
            # One that is damaged, foreign or has expired cannot be read; the sweep removes it.
            with suppress(OutputDamaged, OutputError):
                manifest = await load_manifest(self._objects, parse_locator(locator, caller_id=owner.caller_id))
                if manifest is not None and manifest.session_id == owner.session_id:
                    await delete_output(self._objects, locator, owner.caller_id)
                    deleted += 1
        return deleted

    async def _delete_history(self, workflow_id: str) -> None:
        execution = WorkflowExecution(workflow_id=workflow_id)
        request = DeleteWorkflowExecutionRequest(namespace=self._client.namespace, workflow_execution=execution)
        with ignore_missing():
            await self._client.workflow_service.delete_workflow_execution(request)
