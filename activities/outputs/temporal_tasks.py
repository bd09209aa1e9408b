"""Running tasks and the outputs they refer to, as recorded in Temporal; the sweep keeps those outputs."""

import asyncio
from collections.abc import Collection

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from outlast.activities.outputs.manifest import REFERENCES_ATTRIBUTE, reference_to
from outlast.activities.workflow_requests import described

_AT_ONCE = 16
_PER_QUERY = 50
_REFERENCES = SearchAttributeKey.for_keyword_list(REFERENCES_ATTRIBUTE)


class TemporalTasks:
    """The state of tasks. Every method raises `RPCError` when Temporal does not respond: then nothing may be removed.
    Whether a workflow has ended comes from the workflow itself, since visibility lags behind.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.namespace = client.namespace

    async def running(self, task_ids: Collection[str]) -> set[str]:
        """Return the tasks whose workflow has not ended."""
        statuses = await self._statuses(task_ids)
        return {task_id for task_id, status in statuses.items() if status is WorkflowExecutionStatus.RUNNING}

    async def known(self, workflow_ids: Collection[str]) -> set[str]:
        """Return the workflows whose history Temporal still keeps."""
        statuses = await self._statuses(workflow_ids)
        return {workflow_id for workflow_id, status in statuses.items() if status is not None}

    async def referred_to(self, locators: Collection[str]) -> set[str]:
        """Return the locators that occur in the arguments of a running task."""
        by_reference = {reference_to(locator): locator for locator in locators}
        ordered = sorted(by_reference)
        found: set[str] = set()
        for start in range(0, len(ordered), _PER_QUERY):
            quoted = ", ".join(f'"{reference}"' for reference in ordered[start : start + _PER_QUERY])
            query = f'{REFERENCES_ATTRIBUTE} IN ({quoted}) AND ExecutionStatus = "Running"'
            async for execution in self._client.list_workflows(query):
                found.update(execution.typed_search_attributes.get(_REFERENCES) or ())
        return {locator for reference, locator in by_reference.items() if reference in found}

    async def _statuses(self, workflow_ids: Collection[str]) -> dict[str, WorkflowExecutionStatus | None]:
        ordered = sorted(workflow_ids)
        found: dict[str, WorkflowExecutionStatus | None] = {}
        for start in range(0, len(ordered), _AT_ONCE):
            batch = ordered[start : start + _AT_ONCE]
            found.update(zip(batch, await asyncio.gather(*(self._status(one) for one in batch)), strict=True))
        return found

    async def _status(self, workflow_id: str) -> WorkflowExecutionStatus | None:
        """Return the workflow's status, None if it does not exist."""
        description = await described(self._client, workflow_id)
        return None if description is None else description.status
