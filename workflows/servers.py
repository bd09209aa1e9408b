"""McpServerWorkflow: the state of one MCP server of the operator's file. It keeps the last list of its tools, and which
worker holds each of its sessions.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from outlast.activities.mcp_servers import contracts as mcp
from outlast.workflows.contracts.queues import SERVERS_TASK_QUEUE
from outlast.workflows.handler_api.failures import envelope_of

with workflow.unsafe.imports_passed_through():
    from outlast.activities.mcp_servers.servers import (
        LIST_TIMEOUT,
        LIST_WORKER_TIMEOUT,
        SERVER_CALL_HEARTBEAT_TIMEOUT,
        McpServerActivities,
    )

_UNUSED = timedelta(days=7)
"""Time without use after which the workflow ends. The next use starts it again."""
_MAX_PLACES = 5_000
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
        tried_at = workflow.now()
        try:
            listing = await workflow.execute_activity_method(
                McpServerActivities.list_server_tools,
                request,
                task_queue=SERVERS_TASK_QUEUE,
                schedule_to_start_timeout=LIST_WORKER_TIMEOUT,
                start_to_close_timeout=LIST_TIMEOUT,
                heartbeat_timeout=SERVER_CALL_HEARTBEAT_TIMEOUT,
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=f"list tools of {request.server}",
            )
        except ActivityError as error:
            self._note_failure(request, _reason(error))
        else:
            self._note_success(request, listing)
        finally:
            self._attempt = None
        self._state = self._state.model_copy(update={"tried_at": tried_at})

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


def _reason(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ActivityTimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START:
        return "No worker with a file of MCP servers is running."
    return envelope_of(error, tool="tools/list").message
