"""Activities of workers with a file of MCP servers: list the tools of a server, and call one of them at most once."""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from opentelemetry import trace
from temporalio import activity
from temporalio.client import Client
from temporalio.common import MetricMeter, RetryPolicy
from temporalio.service import RPCError

from outlast.activities.contracts import ErrorCategory, JsonObject, SealedSecret
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, redact
from outlast.activities.failures.exceptions import OutputError, SealError
from outlast.activities.heartbeat import HandedOver, heartbeating
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.activities import (
    MAX_ANSWER_BYTES,
    answer_bytes,
    as_mcp_answer,
    refuse_unknown_result,
)
from outlast.activities.mcp_servers.config import ServersFile
from outlast.activities.mcp_servers.metrics import ServerMetrics
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import StoredOutput
from outlast.activities.outputs.jmespath_client import expressions
from outlast.activities.outputs.jmespath_process import Query
from outlast.activities.outputs.output_format import stored_output
from outlast.activities.outputs.writer import OutputWriter
from outlast.activities.secrets import SecretSealer, server_secret_purpose
from outlast.activities.workflow_requests import ignore_missing, until_accepted, update_with_start

SERVER_CALL_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
SERVER_CALL_RETRY_POLICY = RetryPolicy(maximum_attempts=1)
"""The workflow decides whether a call is made again: it knows whether that is safe."""
LIST_TIMEOUT = timedelta(seconds=110)
LIST_WORKER_TIMEOUT = timedelta(seconds=20)
"""Time for a worker with a file of servers to begin."""
TOLD_WORKER_TIMEOUT = timedelta(seconds=5)
"""Time for the worker that was told of a change to begin. If it has stopped, another one lists."""
CHECK_TIMEOUT = timedelta(seconds=60)
REQUEST_TIMEOUT = timedelta(seconds=60)
REQUEST_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=3)
_MAX_CHECKED_BYTES = 1_000
_TOO_LARGE = -32603
UseT = TypeVar("UseT", bound=mcp.SessionUse)


def _raise_unless_cancelled(*, was_sent: bool) -> None:
    """Raise the reason for which an activity ends that nobody has cancelled: its worker stops."""
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return
    if not was_sent:
        raise HandedOver from None
    raise ToolFailure.of(ErrorCategory.OUTCOME_UNKNOWN, "Its worker was stopped before it answered.") from None


class McpServerActivities:
    """Lists and calls tools of the MCP servers in the operator's file."""

    def __init__(
        self,
        file: ServersFile,
        client: Client,
        objects: OutputObjects,
        sealer: SecretSealer,
        meter: MetricMeter,
        *,
        queue: str,
        workflows_queue: str,
    ) -> None:
        """`queue` is this worker's own. The workflows of servers are on `workflows_queue`."""
        self._client = client
        self._sealer = sealer
        self._objects = objects
        self.queue = queue
        """Queue of this worker, for calls of its sessions."""
        self._workflows_queue = workflows_queue
        # Loads the MCP SDK with its servers, which workers without a file of servers do not need.
        from outlast.activities.mcp_servers.pool import ServerPool  # noqa: PLC0415

        self._pool = ServerPool(file, self._note, ServerMetrics(meter), self._report)

    async def close(self) -> None:
        """End all sessions and the processes of servers."""
        await self._pool.close()

    @activity.defn
    async def list_server_tools(self, request: mcp.ListServerInput) -> mcp.ServerListing:
        """Return the tools of a server now, from a session of its own."""
        with as_activity_failure():
            async with heartbeating():
                if request.caller_id is None:
                    return await self._pool.common_listing(request.server)
                secrets = self._secrets(request.server, request.caller_id, request.caller_secrets)
                return await self._pool.listing(request.server, secrets)

    @activity.defn
    async def call_server_tool(self, request: mcp.CallServerToolInput) -> mcp.ServerAnswer:
        """Call a tool once, or return the queue of the worker that has the session.

        Fails with `outcome_unknown` if the request was sent and its answer was lost; with `conflict` for the first call
        after a session was lost; with another category if the tool was not called, or if the server refused the call.
        """
        # Loads the MCP SDK, see above.
        from outlast.activities.mcp_servers.sessions import Relay  # noqa: PLC0415

        trace.get_current_span().set_attribute("outlast.mcp.server", request.server)
        was_sent = False
        with as_activity_failure():
            try:
                async with heartbeating() as heartbeats:
                    secrets = self._secrets(request.server, request.caller_id, request.caller_secrets)
                    request = self._with_own_session(request, secrets)
                    own, elsewhere = await self._own_place(request)
                    if elsewhere is not None:
                        return mcp.ServerAnswer(queue=elsewhere)
                    relay = Relay(heartbeats, caller_id=request.caller_id, queue=own)
                    try:
                        answer = await self._pool.call(request, dict(request.arguments), relay, secrets)
                    finally:
                        was_sent = relay.was_sent
                    refuse_unknown_result(answer)
                    return await self._recorded(answer, request)
            except asyncio.CancelledError:
                _raise_unless_cancelled(was_sent=was_sent)
                raise

    @activity.defn
    async def request_server(self, request: mcp.RequestServerInput) -> mcp.ServerReply:
        """Make a request that reads, or return the queue of the worker that has the session.

        An error that the server answers is part of the reply; other failures are those of `call_server_tool`.
        """
        # Loads the MCP SDK, see above.
        from outlast.activities.mcp_servers.sessions import MCPError, Relay  # noqa: PLC0415

        with as_activity_failure():
            try:
                async with heartbeating() as heartbeats:
                    secrets = self._secrets(request.server, request.caller_id, request.caller_secrets)
                    request = self._with_own_session(request, secrets)
                    own, elsewhere = await self._own_place(request)
                    if elsewhere is not None:
                        return mcp.ServerReply(queue=elsewhere)
                    relay = Relay(heartbeats, caller_id=request.caller_id, queue=own)
                    return _reply(request, await self._pool.request(request, relay, secrets))
            except MCPError as error:
                return mcp.ServerReply(error=mcp.ServerError(code=error.code, message=redact(error.message)[:500]))
            except asyncio.CancelledError:
                _raise_unless_cancelled(was_sent=False)
                raise

    @activity.defn
    async def check_server_call(self, request: mcp.CheckDoneInput) -> bool | None:
        """Return what a `verify` says: whether the call was executed; None if its expression cannot tell."""
        with as_activity_failure():
            texts = [str(block["text"]) for block in request.answer.content if "text" in block]
            value = {
                "structured": request.answer.structured,
                "content": list(request.answer.content),
                "text": "\n".join(texts),
                "is_error": request.answer.is_error,
            }
            try:
                async with expressions(
                    Query(filter=None, select=request.expression, max_bytes=_MAX_CHECKED_BYTES, paging=0)
                ) as query:
                    found = (await query.evaluate(json.dumps(value).encode())).get("value")
            except OutputError as error:
                raise ToolFailure(error.envelope()) from None
            return found if isinstance(found, bool) else None

    def _secrets(self, server: str, caller_id: str, sealed: Mapping[str, SealedSecret]) -> dict[str, str]:
        """Return the caller's secrets that the server needs, in the clear."""
        needed = self._pool.server(server).caller_secrets
        purpose = server_secret_purpose(caller_id)
        try:
            return {
                name: self._sealer.open(sealed[name], purpose=purpose).get_secret_value()
                for name in needed
                if name in sealed
            }
        except SealError as error:
            raise ToolFailure.of(
                ErrorCategory.AUTHENTICATION, f"A secret for {server} cannot be opened: {error}"
            ) from None

    def _with_own_session(self, request: UseT, secrets: Mapping[str, str]) -> UseT:
        """Give each caller and each value of its secrets a separate session."""
        if not secrets:
            return request
        digest = self._sealer.digests([request.caller_id, *(f"{name}={secrets[name]}" for name in sorted(secrets))])[0]
        return request.model_copy(update={"session_key": f"{request.session_key}-{digest[:32]}"})

    async def _own_place(self, request: mcp.SessionUse) -> tuple[str | None, str | None]:
        """Return the queue of this worker if the session belongs to it, else of the worker that it belongs to."""
        if self._pool.keeps_no_state(request.server, request.session):
            return None, None
        if not request.is_placed:
            place = await self._place(request)
            if place.queue != self.queue:
                return None, place.queue
            if place.replaces:
                self._pool.mark_lost(request.server, request.session_key)
        return self.queue, None

    async def _place(self, request: mcp.SessionUse) -> mcp.SessionPlace:
        placed = mcp.PlaceSessionInput(
            key=request.session_key, candidate_queue=self.queue, lost_queue=request.lost_queue
        )
        server = self._pool.server(request.server)
        state = mcp.ServerState(server=server.name, kind=server.kind)
        # Nothing has been sent to the server yet, so the call can wait until Temporal takes the request.
        return await until_accepted(
            lambda: update_with_start(
                self._client,
                mcp.PLACE_SESSION_UPDATE,
                placed,
                mcp.SessionPlace,
                mcp.SERVER_WORKFLOW,
                state,
                id=mcp.server_workflow_id(server.name),
                task_queue=self._workflows_queue,
                static_summary=f"MCP server {server.name}",
            )
        )

    async def _recorded(self, answer: dict[str, Any], request: mcp.CallServerToolInput) -> mcp.ServerAnswer:
        """Return the answer, stored if it is too large for a history."""
        if answer_bytes(answer) <= MAX_ANSWER_BYTES:
            return mcp.ServerAnswer(answer=as_mcp_answer(answer))
        if request.scope is None:
            raise ToolFailure.of(ErrorCategory.VALIDATION, "The answer is too large.", "Ask the tool for less.")
        stored = await self._stored(answer, request)
        return mcp.ServerAnswer(stored=stored, answer=mcp.McpAnswer(is_error=answer.get("isError") is True))

    async def _stored(self, answer: dict[str, Any], request: mcp.CallServerToolInput) -> StoredOutput:
        assert request.scope is not None
        value: dict[str, Any] = {"content": answer.get("content") or [], "structured": answer.get("structuredContent")}
        content = json.dumps(value, ensure_ascii=False).encode()
        async with OutputWriter(
            self._objects, request.scope, what=f"answer of {request.server}", kind="json"
        ) as writer:
            await writer.write(content)
            ttl = timedelta(seconds=request.ttl_seconds)
            manifest = await writer.finish(content_type="application/json", ttl=ttl)
            return stored_output(manifest).model_copy(update={"fields": ()})

    async def _note(self, server: str, key: str, event: str) -> None:
        """Report an event of a session to the server's workflow, if it can be reached."""
        note = mcp.SessionNote.model_validate({"key": key, "queue": self.queue, "event": event})
        await self._signal(server, mcp.NOTE_SESSION_SIGNAL, note)

    async def _report(self, server: str, lists: bool, uris: tuple[str, ...]) -> None:
        change = mcp.ServerChange(lists=lists, uris=uris, queue=self.queue)
        await self._signal(server, mcp.NOTE_CHANGE_SIGNAL, change)

    async def _signal(self, server: str, signal: str, note: mcp.SessionNote | mcp.ServerChange) -> None:
        try:
            with ignore_missing():
                await self._client.get_workflow_handle(mcp.server_workflow_id(server)).signal(signal, note)
        except RPCError:
            activity.logger.warning("An event of the MCP server %s was not reported", server)


def _reply(request: mcp.RequestServerInput, result: JsonObject) -> mcp.ServerReply:
    """Return the result without what is about the session with the server, or an error for one that is too large."""
    meta = as_mcp_answer(result).meta
    result = {key: value for key, value in result.items() if key not in ("_meta", "resultType", "ttlMs", "cacheScope")}
    result = {**result, "_meta": meta} if meta else result
    size = len(json.dumps(result, ensure_ascii=False).encode())
    if size <= MAX_ANSWER_BYTES:
        return mcp.ServerReply(result=result)
    what = request.params.get("uri") or request.method
    message = f"The answer for {what} has {size:,} bytes; at most {MAX_ANSWER_BYTES:,} can be read."
    return mcp.ServerReply(error=mcp.ServerError(code=_TOO_LARGE, message=message))
