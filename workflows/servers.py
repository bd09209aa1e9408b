"""McpServerWorkflow: the state of one MCP server of the operator's file. It keeps the last lists of what it has, and
which worker holds each of its sessions. McpRequestWorkflow: one request to a server that only reads.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from outlast.activities.mcp_servers import contracts as mcp
from outlast.workflows.contracts.queues import SERVERS_TASK_QUEUE
from outlast.workflows.handler_api.failures import ToolError, envelope_of
from outlast.workflows.handler_api.servers import OWN_QUEUE_TIMEOUT, AnswerLost, on_its_worker

with workflow.unsafe.imports_passed_through():
    from outlast.activities.mcp_servers.servers import (
        LIST_TIMEOUT,
        LIST_WORKER_TIMEOUT,
        REQUEST_RETRY_POLICY,
        REQUEST_TIMEOUT,
        SERVER_CALL_HEARTBEAT_TIMEOUT,
        TOLD_WORKER_TIMEOUT,
        McpServerActivities,
    )

_UNUSED = timedelta(days=7)
"""Time without use after which the workflow ends. The next use starts it again."""
_MAX_PLACES = 5_000
_INTERNAL_ERROR = -32603
_LOST = ""
"""Place of a session whose worker has stopped."""


@workflow.defn(name=mcp.SERVER_WORKFLOW)
class McpServerWorkflow:
    """One per server. It continues as new, and ends when nobody uses the server."""

    @workflow.init
    def __init__(self, state: mcp.ServerState) -> None:
        """Continue from `state`."""
        self._state = state
        self._places = dict(state.places)
        self._used_at = workflow.now()
        self._attempt: asyncio.Task[None] | None = None

    @workflow.run
    async def run(self, _state: mcp.ServerState) -> None:
        """Wait until the history is long, or the server unused."""
        while not workflow.info().is_continue_as_new_suggested():
            unused = workflow.now() - self._used_at
            if unused >= _UNUSED and workflow.all_handlers_finished():
                return
            try:
                await workflow.wait_condition(
                    lambda: workflow.info().is_continue_as_new_suggested(),
                    timeout=max(_UNUSED - unused, timedelta(minutes=1)),
                )
            except TimeoutError:
                continue
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._state.model_copy(update={"places": self._places}))

    @workflow.update(name=mcp.LIST_TOOLS_UPDATE)
    async def list_tools(self, request: mcp.ListServerInput) -> mcp.ServerListing:
        """Return the tools. Callers at the same time share one attempt; after a failed one, the last list remains."""
        self._used_at = workflow.now()
        tries = 0
        while not self._is_fresh(request) and tries < 2:
            # An attempt that had begun before may be of another configuration.
            tries += 1 if self._attempt is None else 0
            is_own = self._attempt is None
            if self._attempt is None:
                self._attempt = asyncio.create_task(self._list(request))
            await self._attempt
            if is_own or self._state.config_digest == request.config_digest:
                break
        assert self._state.listing is not None
        return self._state.listing

    @workflow.update(name=mcp.PLACE_SESSION_UPDATE)
    def place_session(self, request: mcp.PlaceSessionInput) -> mcp.SessionPlace:
        """Return the worker that has the session; the candidate if no worker has it."""
        self._used_at = workflow.now()
        present = self._places.get(request.key)
        if present and present != request.lost_queue:
            return mcp.SessionPlace(queue=present)
        if present is None and len(self._places) >= _MAX_PLACES:
            del self._places[next(iter(self._places))]
        self._places[request.key] = request.candidate_queue
        return mcp.SessionPlace(queue=request.candidate_queue, replaces=present is not None)

    @workflow.signal(name=mcp.NOTE_SESSION_SIGNAL)
    def note_session(self, note: mcp.SessionNote) -> None:
        """Record what a worker reports of a session."""
        if note.event == "restarted":
            self._state = self._state.model_copy(update={"restarts": self._state.restarts + 1})
        elif self._places.get(note.key) == note.queue:
            if note.event == "ended":
                del self._places[note.key]
            else:
                self._places[note.key] = _LOST

    @workflow.signal(name=mcp.NOTE_CHANGE_SIGNAL)
    def note_change(self, change: mcp.ServerChange) -> None:
        """Count a change that a server has told a worker of, where entry points see it. Lists are read again."""
        counted = self._state.changes
        updates = {uri: number for uri, number in counted.updates.items() if uri not in change.uris}
        latest = max(counted.updates.values(), default=0) + 1
        updates |= dict.fromkeys(change.uris, latest)
        updates = dict(list(updates.items())[-mcp.MAX_UPDATES :])
        changes = mcp.ServerChanges(lists=counted.lists + change.lists, updates=updates)
        told: dict[str, object] = {"tried_at": None, "told_queue": change.queue} if change.lists else {}
        self._state = self._state.model_copy(update={"changes": changes, **told})
        workflow.upsert_memo({mcp.CHANGES_MEMO: changes})

    @workflow.query(name=mcp.STATUS_QUERY)
    def status(self) -> mcp.ServerStatus:
        """State of the server as of the last attempt to list its tools."""
        state = self._state
        return mcp.ServerStatus(
            server=state.server,
            kind=state.kind,
            state=state.state,
            error=state.error,
            since=state.since,
            tools=len(state.listing.tools) if state.listing else 0,
            sessions=sum(1 for queue in self._places.values() if queue != _LOST),
            restarts=state.restarts,
        )

    def _is_fresh(self, request: mcp.ListServerInput) -> bool:
        state = self._state
        if state.state != "up" or state.config_digest != request.config_digest or state.tried_at is None:
            return False
        return workflow.now() - state.tried_at <= timedelta(seconds=request.max_age_seconds)

    async def _list(self, request: mcp.ListServerInput) -> None:
        tried_at, changes = workflow.now(), self._state.changes.lists
        try:
            listing = await self._listing(request)
        except ActivityError as error:
            self._note_failure(request, _reason(error))
        else:
            self._note_success(request, listing)
        finally:
            self._attempt = None
        # The change of a list that was told meanwhile may be missing in it.
        is_current = self._state.changes.lists == changes
        self._state = self._state.model_copy(update={"tried_at": tried_at if is_current else None})

    async def _listing(self, request: mcp.ListServerInput) -> mcp.ServerListing:
        """Let the worker list that was told of the last change: only its session may have what has changed."""
        if self._state.told_queue is not None:
            try:
                return await self._listed_by(self._state.told_queue, TOLD_WORKER_TIMEOUT, request)
            except ActivityError as error:
                if not _has_not_begun(error):
                    raise
                self._state = self._state.model_copy(update={"told_queue": None})
        return await self._listed_by(SERVERS_TASK_QUEUE, LIST_WORKER_TIMEOUT, request)

    async def _listed_by(self, queue: str, patience: timedelta, request: mcp.ListServerInput) -> mcp.ServerListing:
        return await workflow.execute_activity_method(
            McpServerActivities.list_server_tools,
            request,
            task_queue=queue,
            schedule_to_start_timeout=patience,
            start_to_close_timeout=LIST_TIMEOUT,
            heartbeat_timeout=SERVER_CALL_HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=f"list tools of {request.server}",
        )

    def _note_success(self, request: mcp.ListServerInput, listing: mcp.ServerListing) -> None:
        changes: dict[str, object] = {"listing": listing, "config_digest": request.config_digest, "error": None}
        if listing.kind is not None:
            changes["kind"] = listing.kind
        self._change("up", changes)

    def _note_failure(self, request: mcp.ListServerInput, reason: str) -> None:
        last = self._state.listing or mcp.ServerListing(server=request.server, listed_at=workflow.now())
        changes: dict[str, object] = {"listing": last.model_copy(update={"error": reason}), "error": reason}
        self._change("down", changes)

    def _change(self, state: str, changes: dict[str, object]) -> None:
        if self._state.state != state:
            changes = {**changes, "state": state, "since": workflow.now()}
        self._state = self._state.model_copy(update=changes)


@workflow.defn(name=mcp.REQUEST_WORKFLOW)
class McpRequestWorkflow:
    """One request that only reads what a server has: a resource, a prompt, suggestions for an argument."""

    @workflow.run
    async def run(self, request: mcp.RequestServerInput) -> mcp.ServerReply:
        """Make the request on the worker that has the session, again if the answer is lost."""
        end = workflow.now() + REQUEST_TIMEOUT

        async def execute(queue: str, placed: mcp.RequestServerInput) -> mcp.ServerReply:
            left = max(end - workflow.now(), timedelta(seconds=1))
            return await workflow.execute_activity_method(
                McpServerActivities.request_server,
                placed,
                task_queue=queue,
                schedule_to_start_timeout=left if queue == SERVERS_TASK_QUEUE else min(left, OWN_QUEUE_TIMEOUT),
                schedule_to_close_timeout=left,
                heartbeat_timeout=SERVER_CALL_HEARTBEAT_TIMEOUT,
                retry_policy=REQUEST_RETRY_POLICY,
                summary=f"{request.method} of {request.server}",
            )

        while True:
            try:
                return await on_its_worker(request, execute, tool=request.method)
            except AnswerLost as lost:
                if lost.by_time or workflow.now() >= end:
                    return _failed(lost.reason)
            except ToolError as error:
                return _failed(error.envelope.message)


def _failed(reason: str) -> mcp.ServerReply:
    return mcp.ServerReply(error=mcp.ServerError(code=_INTERNAL_ERROR, message=reason))


def _has_not_begun(error: ActivityError) -> bool:
    cause = error.cause
    return isinstance(cause, ActivityTimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START


def _reason(error: ActivityError) -> str:
    if _has_not_begun(error):
        return "No worker with a file of MCP servers is running."
    return envelope_of(error, tool="tools/list").message
