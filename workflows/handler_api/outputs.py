"""Stored outputs, from workflow code. The activities that store and restore have their own task queue."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from outlast.activities.outputs.activities import (
        RESTORE_ATTEMPT_TIMEOUT,
        RESTORE_RETRY_POLICY,
        STORE_ATTEMPT_TIMEOUT,
        STORE_HEARTBEAT_TIMEOUT,
        STORE_RETRY_POLICY,
        OutputActivities,
    )

from outlast.activities.outputs.contracts import (
    OutputScope,
    RestoredOutput,
    RestoreOutputInput,
    StoreContentInput,
    StoreDatasetInput,
    StoredDataset,
    StoredOutput,
    StoreRecordInput,
)
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE
from outlast.workflows.handler_api.activity_calls import CallActivities, Input, Result, remaining, tool_errors
from outlast.workflows.handler_api.observability import timed


class Outputs(CallActivities):
    """Stores outputs of any size under the call's policy, and restores them."""

    @property
    def scope(self) -> OutputScope:
        """Owner of the outputs: caller, conversation and call."""
        task_id = workflow.info().workflow_id
        return OutputScope(
            caller_id=self._call.caller.id,
            session_id=self._call.session_id,
            message_id=self._call.message_id,
            tool_call_id=self._call.tool_call_id or task_id,
            task_id=task_id,
        )

    @property
    def _stored_for(self) -> dict[str, Any]:
        return {"scope": self.scope, "ttl_seconds": self._call.output.ttl_seconds}

    async def store_dataset(self, dataset_id: str) -> StoredDataset:
        """Copy a whole dataset of any size into the store."""
        request = StoreDatasetInput(caller=self._call.caller, dataset_id=dataset_id, **self._stored_for)
        return await self._store(OutputActivities.store_dataset, request, f"store dataset {dataset_id}")

    async def store_record(self, store_id: str, key: str) -> StoredOutput:
        """Copy a whole record of a key-value store into the store."""
        request = StoreRecordInput(caller=self._call.caller, store_id=store_id, key=key, **self._stored_for)
        return await self._store(OutputActivities.store_record, request, f"store a record of store {store_id}")

    async def store_text(self, text: str, *, content_type: str = "text/plain") -> StoredOutput:
        """Store a text."""
        return await self._store_content(kind="text", content_type=content_type, text=text)

    async def store_value(self, value: JsonValue) -> StoredOutput:
        """Store a JSON value."""
        return await self._store_content(kind="json", content_type="application/json", value=value)

    async def store_blob(self, blob_base64: str, *, content_type: str) -> StoredOutput:
        """Store bytes, given in base64."""
        return await self._store_content(kind="binary", content_type=content_type, blob_base64=blob_base64)

    async def restore(self, request: RestoreOutputInput) -> RestoredOutput:
        """Read a part of a stored output."""
        with timed("fetch"):
            return await self._run(
                OutputActivities.restore_output,
                request,
                f"restore {request.locator}",
                RESTORE_ATTEMPT_TIMEOUT,
                RESTORE_RETRY_POLICY,
            )

    async def _store_content(self, **content: Any) -> StoredOutput:
        request = StoreContentInput(**content, **self._stored_for)
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
