"""Starts the workflows of tasks: at once, queued behind other tasks of the caller, or eagerly in the API process."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from outlast.activities.contracts import Caller
from outlast.activities.dispatch.contracts import QUEUED_START_DELAY
from outlast.api.access.limits.caller_limits import leave_body_slot
from outlast.api.access.limits.quotas import StoredBytes
from outlast.api.settings import ApiSettings
from outlast.api.tasks.admission import AdmittedCall
from outlast.api.tasks.fair_queue import FairQueue
from outlast.api.tasks.recorded_arguments import LargeArguments
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.temporal.visibility import derived_id
from outlast.worker.connection import connect, worker_identity
from outlast.worker.telemetry import Telemetry, start_telemetry
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import CallRefused, TaskStatus, ToolCall
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.answers import RESTORE_TOOL

if TYPE_CHECKING:
    from outlast.worker.eager_worker import EagerWorker


log = logging.getLogger("outlast.api")
_LOOPBACK = "127.0.0.1"
_START_SECONDS = 3.0
"""Time for which the API waits for its worker before it serves without one."""
_PAUSE_SECONDS = 1.0


class QuickCalls:
    """Hosts the worker that runs the first step of quick calls, while Temporal can be reached."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._telemetry: Telemetry | None = None
        self._eager: EagerWorker | None = None
        self._client: Client | None = None
        self._is_there = asyncio.Event()

    @property
    def client(self) -> Client | None:
        """The client that starts quick calls eagerly; None while this process hosts no worker."""
        return self._client

    @contextmanager
    def reading_ahead(self, call: ToolCall, task_id: str) -> Generator[None]:
        """Begin the reads of the call while the block starts its task."""
        with self._eager.ahead.of(call, task_id) if self._eager is not None else nullcontext():
            yield

    @property
    def metrics_url(self) -> str | None:
        """The address of the worker's metrics, on loopback; None without a worker."""
        return self._telemetry.metrics_url if self._telemetry else None

    async def metrics(self) -> bytes:
        """The worker's metrics in the format of Prometheus; empty without a worker, or if they cannot be read."""
        if self.metrics_url is None:
            return b""
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                return (await http.get(self.metrics_url)).raise_for_status().content
        except httpx.HTTPError as error:
            log.warning("The metrics of quick calls cannot be read: %s", error)
            return b""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Host the worker within the block, whenever Temporal can be reached. At its end, running calls may finish."""
        if not self._settings.quick_calls:
            yield
            return
        self._telemetry = start_telemetry(_LOOPBACK, 0)
        hosting = asyncio.create_task(self._host(self._telemetry))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_START_SECONDS):
                    await self._is_there.wait()
            yield
        finally:
            self._client = None
            if self._eager is not None:
                await self._eager.worker.shutdown()
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self, telemetry: Telemetry) -> None:
        """Host one worker after the other: a worker ends when Temporal refuses its requests."""
        # Only a process that hosts a worker loads it.
        from outlast.worker.eager_worker import eager_worker  # noqa: PLC0415

        noted = False
        while True:
            try:
                client = await connect(self._settings, telemetry.runtime, identity=worker_identity())
                self._eager = eager_worker(client, self._settings, slots=self._settings.quick_calls)
                self._client = client
                self._is_there.set()
                await self._eager.worker.run()
                return
            except (RuntimeError, RPCError) as error:
                if not noted:
                    log.info("Quick calls are left to the workers for now: %s", error)
                noted = True
            finally:
                self._client = self._eager = None
            await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(eq=False)
class TaskStarter:
    """Starts admitted calls."""

    client: Client
    arguments: LargeArguments
    shares: FairQueue
    sessions: SessionStarts
    stored: StoredBytes
    quick: QuickCalls
    fair: bool

    async def start(self, admitted: AdmittedCall, task_id: str) -> TaskStatus:
        """Start the task, and return its status, `queued` or `working`.

        Raises `CallTooLarge`, `StorageFull`, `WorkflowAlreadyStartedError`, and `TooManyRequests` when the caller has
        too many queued tasks, or sessions.
        """
        call, summary = admitted.call, admitted.summary
        caller_id = call.caller.id
        if call.tool != RESTORE_TOOL:
            await self.stored.check(caller_id)
        light = await self.arguments.lighten(call, task_id)
        leave_body_slot()
        with temporal_errors():
            if call.session_id is not None:
                await self.sessions.ensure(caller_id, call.session_id)
            async with self.shares.placed(caller_id, task_id) as queued:
                status = TaskStatus.QUEUED if queued else TaskStatus.WORKING
                eager = self.quick.client if admitted.is_quick and not queued else None
                start = (eager or self.client).start_workflow(
                    ToolCallWorkflow.run,
                    light.call,
                    id=task_id,
                    task_queue=TOOLS_TASK_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    memo={memo.SUMMARY: summary},
                    search_attributes=search_attributes.of_task(
                        call,
                        summary,
                        light.references,
                        status=status,
                        reuse=admitted.reuse.digest if admitted.reuse else None,
                    ),
                    static_summary=f"{call.tool} for {caller_id}",
                    priority=Priority(fairness_key=caller_id[:64]) if self.fair else Priority.default,
                    request_eager_start=eager is not None,
                    start_delay=QUEUED_START_DELAY if queued else None,
                )
                with self.quick.reading_ahead(light.call, task_id) if eager else nullcontext():
                    await start
        return status

    def has_ended(self, caller_id: str, task_id: str) -> None:
        """Note the end of a task that this process has started, so that another one may start."""
        self.shares.has_ended(caller_id, task_id)

    async def report_refused_call(self, caller_id: str, session_id: str, refused: CallRefused) -> None:
        """Report a call that did not become a task to its session. It stays refused when that fails."""
        await self.sessions.report_refused_call(caller_id, session_id, refused)


def task_id_of(caller: Caller, tool: str, idempotency_key: str | None) -> str:
    """The task's id. With a key, it is the same for a repeated request."""
    key = idempotency_key
    return derived_id("task", caller.id, key) if key is not None else f"{tool}-{secrets.token_hex(10)}"
