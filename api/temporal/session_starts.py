"""Sessions begin with the first call or message that names them, whichever it is."""

import asyncio
import logging

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from outlast.api.errors import TemporalUnavailable
from outlast.api.temporal.errors import temporal_errors
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import CALL_REFUSED_SIGNAL, SessionState, session_workflow_id
from outlast.workflows.contracts.tool_calls import CallRefused
from outlast.workflows.session import SessionWorkflow

_TOLD_SECONDS = 2.0

log = logging.getLogger("outlast.api")


async def ensure_session(
    client: Client, caller_id: str, session_id: str, *, refused: CallRefused | None = None
) -> None:
    """Begin the session unless it is there, and tell it of a call that was refused, if one was."""
    await client.start_workflow(
        SessionWorkflow.run,
        SessionState(caller_id=caller_id, session_id=session_id),
        id=session_workflow_id(caller_id, session_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_session(caller_id, session_id),
        static_summary=f"session {session_id} of {caller_id}",
        start_signal=CALL_REFUSED_SIGNAL if refused else None,
        start_signal_args=[refused] if refused else [],
    )


async def count_refusal(client: Client, caller_id: str, session_id: str, refused: CallRefused) -> None:
    """Have the session count a call that was refused. The refusal stands also when Temporal does not take it, and does
    not wait for it for long.
    """
    try:
        async with asyncio.timeout(_TOLD_SECONDS):
            with temporal_errors():
                await ensure_session(client, caller_id, session_id, refused=refused)
    except (RPCError, TemporalUnavailable, TimeoutError) as error:
        log.warning("Session %s did not hear of a refused call: %s", session_id, error)
