"""The yardsticks: the same dataset read as a bare Temporal workflow with one activity, as a sensible user writes it.

The same with a local activity, and as an activity without a workflow, are the floor of what such a read can cost.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from apify_client import ApifyClientAsync


@dataclass(frozen=True)
class BareRead:
    """Which rows to read."""

    dataset_id: str
    limit: int = 20


class BareActivities:
    """The one activity, with its client injected and the client's own retries off."""

    def __init__(self, client: ApifyClientAsync) -> None:
        self._client = client

    @activity.defn
    async def read_items(self, order: BareRead) -> list[dict[str, Any]]:
        """Rows of a dataset."""
        page = await self._client.dataset(order.dataset_id).list_items(limit=order.limit)
        return page.items


@workflow.defn
class BareReadWorkflow:
    """One activity, and its answer."""

    @workflow.run
    async def run(self, order: BareRead) -> list[dict[str, Any]]:
        """Read and answer."""
        return await workflow.execute_activity_method(
            BareActivities.read_items,
            order,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=500)),
        )


@workflow.defn
class BareLocalReadWorkflow:
    """One local activity, and its answer."""

    @workflow.run
    async def run(self, order: BareRead) -> list[dict[str, Any]]:
        """Read and answer."""
        return await workflow.execute_local_activity_method(
            BareActivities.read_items, order, start_to_close_timeout=timedelta(seconds=5)
        )
