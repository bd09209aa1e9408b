"""Requests about workflows and schedules that may no longer exist."""

from collections.abc import Generator
from contextlib import contextmanager

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode


@contextmanager
def ignore_missing() -> Generator[None]:
    """End the block without an error if the workflow or schedule does not exist. Raises every other `RPCError`."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def described(client: Client, workflow_id: str) -> WorkflowExecutionDescription | None:
    """Return Temporal's description of a workflow, None if it does not exist. Raises `RPCError`."""
    with ignore_missing():
        return await client.get_workflow_handle(workflow_id).describe()
    return None
