"""How large the histories of a batch's workflow are, run by run."""

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client


@dataclass(frozen=True)
class RunSize:
    """The history of one run."""

    events: int
    size_bytes: int


async def runs_of(client: Client, batch_id: str) -> Sequence[RunSize]:
    """All runs of the workflow, also those that have continued as new."""
    found: list[RunSize] = []
    async for execution in client.list_workflows(f"WorkflowId = '{batch_id}'"):
        described = await client.get_workflow_handle(batch_id, run_id=execution.run_id).describe()
        info = described.raw_description.workflow_execution_info
        found.append(RunSize(info.history_length, info.history_size_bytes))
    return found
