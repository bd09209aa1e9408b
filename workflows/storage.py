"""Reading what runs leave behind, from workflow code."""

from collections.abc import Awaitable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.apify import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT, READ_RETRY_POLICY
    from activities.datasets import StorageActivities

from activities.models import DatasetItemsInput, DatasetPage, RunLog, RunLogInput
from workflows.deadline import remaining
from workflows.failures import ToolError, envelope_of
from workflows.models import ToolCall

Answer = TypeVar("Answer")


class Storage:
    """What a handler may read of its caller's storages. Every method raises `ToolError` when that is refused."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def items(self, order: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset."""
        return await self._read(
            workflow.execute_activity_method(
                StorageActivities.fetch_dataset_items,
                order,
                start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=remaining(self._call),
                heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
                retry_policy=READ_RETRY_POLICY,
                summary=f"read dataset {order.dataset_id}",
            )
        )

    async def log(self, run_id: str, *, lines: int) -> RunLog:
        """The last lines of a run's log."""
        return await self._read(
            workflow.execute_activity_method(
                StorageActivities.fetch_run_log,
                RunLogInput(caller=self._call.caller, run_id=run_id, lines=lines),
                start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=remaining(self._call),
                heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
                retry_policy=READ_RETRY_POLICY,
                summary=f"read the log of run {run_id}",
            )
        )

    async def _read(self, answer: Awaitable[Answer]) -> Answer:
        try:
            return await answer
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise ToolError(envelope_of(error, tool=self._call.tool)) from error
