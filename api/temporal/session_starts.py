"""Starts sessions: a session begins with the first call or message that names it, within its caller's limit."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from cachetools import LRUCache
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from outlast.api.access.limits.rate_limits import Clock
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TemporalUnavailable, TooManyRequests
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.visibility import is_running, sessions_query
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import CALL_REFUSED_SIGNAL, SESSION_IDLE, SessionState, session_workflow_id
from outlast.workflows.contracts.tool_calls import CallRefused
from outlast.workflows.session import SessionWorkflow

_REPORT_TIMEOUT_SECONDS = 2.0
_MAX_CALLERS = 10_000
_MAX_KNOWN = 1_000
"""Most existing sessions of one caller that are cached."""
_COUNT_PAUSE_SECONDS = 1.0
"""Shortest time between two counts of one caller's sessions, and the lag of lists."""
_RETRY_SECONDS = 60

log = logging.getLogger("outlast.api")


@dataclass
class _Sessions:
    """One caller's sessions: the last count, and those that this process has begun since."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    known: LRUCache[str, bool] = field(default_factory=lambda: LRUCache[str, bool](_MAX_KNOWN))
    counted_at: float = float("-inf")
    count: int = 0
    begun: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def all(self) -> int:
        return self.count + len(self.begun)


@dataclass(eq=False)
class SessionStarts:
    """Starts the sessions that do not exist yet."""

    client: Client
    policy: PolicySource
    idle: timedelta = SESSION_IDLE
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._callers: LRUCache[str, _Sessions] = LRUCache(_MAX_CALLERS)

    async def ensure(self, caller_id: str, session_id: str, *, refused: CallRefused | None = None) -> None:
        """Start the session unless it exists, and report a refused call to it if there is one.

        Raises `TooManyRequests` for a new session of a caller who has too many, and `RPCError`.
        """
        sessions = self._callers.get(caller_id)
        if sessions is None:
            sessions = self._callers[caller_id] = _Sessions()
        if session_id not in sessions.known:
            await self._admit(caller_id, session_id, sessions)
        await self.client.start_workflow(
            SessionWorkflow.run,
            SessionState(caller_id=caller_id, session_id=session_id, idle_seconds=self.idle.total_seconds()),
            id=session_workflow_id(caller_id, session_id),
            task_queue=TOOLS_TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=search_attributes.of_session(caller_id, session_id),
            static_summary=f"session {session_id} of {caller_id}",
            start_signal=CALL_REFUSED_SIGNAL if refused else None,
            start_signal_args=[refused] if refused else [],
        )
        sessions.known[session_id] = True

    async def report_refused_call(self, caller_id: str, session_id: str, refused: CallRefused) -> None:
        """Report a refused call to its session. The call stays refused when that cannot be done in time."""
        try:
            async with asyncio.timeout(_REPORT_TIMEOUT_SECONDS):
                with temporal_errors():
                    await self.ensure(caller_id, session_id, refused=refused)
        except (RPCError, TemporalUnavailable, TooManyRequests, TimeoutError) as error:
            log.warning("A refused call could not be reported to session %s: %s", session_id, error)

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller, the fraction of its limit that is in use, as last counted."""
        return {
            caller_id: {"sessions": min(1.0, sessions.all / max(1, self.policy.of(caller_id).limits.sessions))}
            for caller_id, sessions in self._callers.items()
        }

    async def _admit(self, caller_id: str, session_id: str, sessions: _Sessions) -> None:
        most = self.policy.of(caller_id).limits.sessions
        async with sessions.lock:
            since = self.clock() - sessions.counted_at
            if sessions.counted_at == float("-inf") or (sessions.all >= most and since > _COUNT_PAUSE_SECONDS):
                await self._count(caller_id, sessions)
        if sessions.all < most:
            sessions.begun[session_id] = self.clock()
        elif not await is_running(self.client, session_workflow_id(caller_id, session_id)):
            LIMITED.labels("sessions").inc()
            raise TooManyRequests(
                f"You have {sessions.all} sessions, and may have {most} (`sessions` in the operator's policy). Nothing "
                "was started: delete sessions that you do not need (`DELETE /v1/sessions/{id}`, `outlast sessions "
                f"delete`), or wait: each ends after {self.idle.total_seconds() / 86_400:g} days without an event.",
                retry_after_seconds=_RETRY_SECONDS,
            )

    async def _count(self, caller_id: str, sessions: _Sessions) -> None:
        began = self.clock()
        counted = await self.client.count_workflows(sessions_query(caller_id))
        sessions.count, sessions.counted_at = counted.count, self.clock()
        sessions.begun = {one: at for one, at in sessions.begun.items() if at >= began - _COUNT_PAUSE_SECONDS}
