"""Lookups that the clients of tasks, batches, turns, sessions and deliveries share: ids, descriptions, links."""

import hashlib
import json

from pydantic import JsonValue
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Caller
from outlast.api.errors import ApiError
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_view import owner_of


def derived_id(prefix: str, *named: JsonValue, chars: int = 32) -> str:
    """An id that a repeated request gets again. It is a digest, so no key can be read in it.

    The digest is not keyed by the sealing ring: after a rotation, a repeated key would start, and pay for, a second
    task.
    """
    return f"{prefix}-{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:chars]}"


async def owned(client: Client, workflow_id: str, caller: Caller, missing: ApiError) -> WorkflowExecutionDescription:
    """Describe a workflow of the caller. Raises `missing` if there is none, or it belongs to another caller."""
    with temporal_errors(missing=missing):
        description = await client.get_workflow_handle(workflow_id).describe()
    if owner_of(description) != caller.id:
        raise missing
    return description


async def is_running(client: Client, workflow_id: str) -> bool:
    """Return whether the workflow exists and has not ended. Raises `RPCError`."""
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return description.status is WorkflowExecutionStatus.RUNNING
