"""Starts sessions: a session begins with the first call or message that names it."""

import asyncio
import logging
from datetime import timedelta

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

_REPORT_TIMEOUT_SECONDS = 2.0

log = logging.getLogger("outlast.api")


async def ensure_session(
    client: Client, caller_id: str, session_id: str, *, idle: timedelta, refused: CallRefused | None = None
) -> None:
    """Start the session unless it exists, and report a refused call to it if there is one.

    It lives for `idle` without an event.
    """
    await client.start_workflow(
        SessionWorkflow.run,
        SessionState(caller_id=caller_id, session_id=session_id, idle_seconds=idle.total_seconds()),
        id=session_workflow_id(caller_id, session_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_session(caller_id, session_id),
        static_summary=f"session {session_id} of {caller_id}",
        start_signal=CALL_REFUSED_SIGNAL if refused else None,
        start_signal_args=[refused] if refused else [],
    )


async def report_refused_call(
    client: Client, caller_id: str, session_id: str, refused: CallRefused, *, idle: timedelta
) -> None:
    """Report a refused call to its session. The call stays refused when Temporal does not take the report in time."""
    try:
        async with asyncio.timeout(_REPORT_TIMEOUT_SECONDS):
            with temporal_errors():
                await ensure_session(client, caller_id, session_id, idle=idle, refused=refused)
    except (RPCError, TemporalUnavailable, TimeoutError) as error:
        log.warning("A refused call could not be reported to session %s: %s", session_id, error)
