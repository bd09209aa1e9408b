"""`tools/call`: returns a task to clients that support tasks, and waits for the result for all others."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

import mcp_types as types
from cachetools import LRUCache
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, CallToolRequestParams
from pydantic import JsonValue

from outlast.activities.json_schema.coercion import coerced
from outlast.api.catalog.catalog import MaskGate, narrowed
from outlast.api.catalog.discovery import ToolSearch, has_discovery, wrapped_call
from outlast.api.catalog.mcp_results import call_result
from outlast.api.errors import (
    ApiError,
    ApproverNeeded,
    ForbiddenScope,
    InvalidCall,
    MaskedToolCalled,
    NotResolvable,
    TaskFinished,
)
from outlast.api.local_calls import LocalCall
from outlast.api.local_tools import LocalTools
from outlast.api.mcp.client_questions import (
    OUTCOME_KEY,
    ClientQuestions,
    answerable,
    outcome_questions,
    parsed_answers,
    resolution_in,
)
from outlast.api.mcp.connections import (
    ActorNotLoaded,
    Client,
    ConnectionKey,
    Connections,
    http_request,
    payment_signature,
)
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol import request_meta, versions
from outlast.api.mcp.protocol.request_meta import ProgressNote, ProgressSteps, progress_notification, wants_progress
from outlast.api.mcp.protocol.task_shapes import handoffs_meta, input_requests, modern_task
from outlast.api.mcp.server_features import ServerFeatures
from outlast.api.mcp.tool_lists import own_schema, tool_entries
from outlast.api.services import Services
from outlast.api.tasks.arguments import split_wait
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.deduplication import with_origin_note
from outlast.contracts.tasks import ConnectedTaskRequest, Task, TaskAnswer, TaskRequest
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import Content, ResourceLink, TaskStatus, ToolResult
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common.add_actor import ADD_ACTOR, ADDED_ACTOR_META, cannot_be_offered
from outlast.workflows.tools.common.discovery_tools import DISCOVERY_TOOLS
from outlast.workflows.tools.common.invalid import shown_input
from outlast.workflows.tools.framework.selection import GivenCall, Payment, TakenPayment
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.registry import ToolSet, UnknownTool

_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
_LOG_LEVEL_META = "io.modelcontextprotocol/logLevel"
_FLUSH_SECONDS = 10.0
"""Longest wait of a finished call for its remaining progress notifications to be sent."""
_MAX_CALLS = 50_000
_Key = tuple[ConnectionKey, str]
TASK_META = "outlast/taskId"
"""Key in a result's `_meta`: the task that produced it."""
REUSED_META = "outlast/reused"
"""Key in the `_meta` of a result: the task already existed, for an identical call."""
_FIRST_QUESTION_SECONDS = 5.0
_STATE_SECONDS = 30.0
"""Longest wait for the start of a run, and then for its first message, if the client does not wait."""
_BEGUN = frozenset({"run_started", "run_resurrected", "input_required", "task_completed"})
OnToolsChanged = Callable[[versions.Context, Client], Awaitable[None]]


@dataclass(frozen=True)
class ParsedCall:
    """A `tools/call` with its client, its tool, and its task request."""

    client: Client
    definition: Tool
    request: TaskRequest
    idempotency_key: str | None
    wait_seconds: float


class CallToolHandler:
    """The handler of `tools/call`."""

    def __init__(
        self,
        services: Services,
        connections: Connections,
        questions: ClientQuestions,
        on_tools_changed: OnToolsChanged,
        servers: ServerFeatures,
    ) -> None:
        """`on_tools_changed` notifies a client that its list of tools has changed."""
        self._servers = servers
        self._questions = questions
        self._services = services
        self._tasks = services.tasks
        self._connections = connections
        self._on_tools_changed = on_tools_changed
        self._local_tools = LocalTools(services)
        self._states = request_meta.RequestStates(services.sealer)
        self._pending = PendingCalls(services.tasks)
        self._masks = MaskGate(services.settings)
        self._search = ToolSearch()

    async def call(self, ctx: versions.Context, params: CallToolRequestParams) -> dict[str, Any]:
        """Answer `tools/call`. Raises -32602 for an unknown tool."""
        client = await self._connections.client(ctx)
        tools = await self._connections.tools(client)
        params = _unwrapped(tools, params)
        definition = self._find_tool(client, tools, params)
        if definition.in_front:
            result = await self._call_front_tool(ctx, client, tools, definition, params)
            return call_result(await self.offer_added_actor(ctx, client, result), mode=client.mode)
        client.principal.require("call")
        _require_client_needs(ctx, definition)
        try:
            return await self._run_call(ctx, self._parse_call(ctx, client, tools, definition, params), params)
        except InvalidCall as error:
            dialect = dialect_of(client.mode)
            refused = dialect.refused(definition, params.arguments or {}, _as_shown(dialect, definition, error))
            return call_result(dialect.failure(refused, definition.name, tools), mode=client.mode)

    async def start_task(self, ctx: versions.Context, params: CallToolRequestParams) -> Task:
        """Start the call as a task (2025-11-25, `params.task`)."""
        client = await self._connections.client(ctx)
        client.principal.require("call")
        tools = await self._connections.tools(client)
        params = _unwrapped(tools, params)
        definition = self._find_tool(client, tools, params)
        dialect = dialect_of(client.mode)
        if dialect.task_support(definition) is None:
            raise dialect.no_task(definition)
        try:
            return await asyncio.shield(self._start_task(self._parse_call(ctx, client, tools, definition, params)))
        except InvalidCall as error:
            raise dialect.refused_task(definition, _as_shown(dialect, definition, error)) from error

    async def cancel_request(self, ctx: versions.Context, request_id: str) -> None:
        """`notifications/cancelled` for a request whose client waits: cancel its task."""
        await self._pending.cancel(ctx, await self._connections.client(ctx), request_id)

    async def result_for_client(
        self, ctx: versions.Context, client: Client, tool: str, result: ToolResult
    ) -> ToolResult:
        """Return the answer of a call of `tool` in its form for the client, and offer it an Actor that it has added."""
        result = await self.offer_added_actor(ctx, client, result)
        result = await self._servers.with_shown_links(client, tool, result)
        if not result.is_error:
            return result
        return dialect_of(client.mode).failure(result, tool, await self._connections.tools(client))

    async def offer_added_actor(self, ctx: versions.Context, client: Client, result: ToolResult) -> ToolResult:
        """If `result` is that of `add-actor`, offer the Actor and notify the client. Returns `result`, or an error."""
        actor = result.meta.get(ADDED_ACTOR_META)
        if not isinstance(actor, str):
            return result
        try:
            added = await self._connections.add_actor(client, actor)
        except ActorNotLoaded:
            return ToolResult.failed(cannot_be_offered(ADD_ACTOR.name, actor))
        if added:
            await self._on_tools_changed(ctx, client)
        return result

    def _find_tool(self, client: Client, tools: ToolSet, params: CallToolRequestParams) -> Tool:
        """Return the called tool. The error for an unknown name has the same data as a call of the tool `invalid`."""
        name = dialect_of(tools.mode).tool_name(params.name)
        try:
            return tools.get(name)
        except UnknownTool as error:
            envelope = narrowed(error.envelope, self._masks.effective(request_meta.tool_mask(_meta_of(params))))
            absent, caller = self._services.absent_tools, client.caller
            servers = self._services.server_tools
            refusal = servers.refusal(name) if servers is not None else None
            envelope = refusal or absent.explained(envelope, name, tools.mode, caller, by_connection=True)
            data = {**envelope.model_dump(mode="json"), "input": shown_input(params.arguments or {})}
            raise dialect_of(tools.mode).unknown_tool(params.name, envelope, data, tools) from error

    async def _call_front_tool(
        self, ctx: versions.Context, client: Client, tools: ToolSet, definition: Tool, params: CallToolRequestParams
    ) -> ToolResult:
        """Run a local tool (`get-task`, ...)."""
        meta = _meta_of(params)
        mask = self._masks.effective(request_meta.tool_mask(meta))
        try:
            self._masks.admit(definition.name, mask, tools.tools)
        except MaskedToolCalled as error:
            return ToolResult.failed(error.envelope)
        call = LocalCall(
            client.principal,
            definition,
            _own_arguments(dialect_of(client.mode), definition, params.arguments or {}),
            mode=client.mode,
            mask=mask,
            offered=tuple(tools.tools),
            idempotency_key=request_meta.idempotency_key(meta),
            options=request_meta.options_for_started_calls(meta),
        )
        if has_discovery(tools) and definition in DISCOVERY_TOOLS:
            legacy, wait = not versions.is_modern(ctx), self._services.settings.max_wait_seconds
            describe = partial(tool_entries, legacy=legacy, max_wait_seconds=wait)
            return await self._search.answer(call, tools, describe)
        return await self._local_tools.call(call)

    async def _run_call(self, ctx: versions.Context, call: ParsedCall, params: CallToolRequestParams) -> dict[str, Any]:
        responses = dict(params.input_responses or {})
        if params.request_state is not None:
            return await self._continue_call(ctx, call, params.request_state, responses)
        task = await self._pending.start(ctx, call.client, self._start_task(call))
        if task.reused is not None:
            # Others wait for it, too: a cancelled request ends only its own wait.
            self._pending.forget(ctx, call.client)
        if _returns_task(ctx, call, TaskUse.ALWAYS, TaskUse.REQUIRED):
            return {"resultType": "task", **modern_task(task)}
        asks_first = _returns_task(ctx, call, TaskUse.AFTER_QUESTIONS)
        seconds = _FIRST_QUESTION_SECONDS if asks_first else call.wait_seconds
        answer = await self._wait_with_progress(ctx, call, task.id, responses, seconds)
        self._pending.forget(ctx, call.client)
        reused = answer.task.model_copy(update={"reused": task.reused})
        return await self._wire_result(ctx, call, answer.model_copy(update={"task": reused}))

    async def _continue_call(
        self, ctx: versions.Context, call: ParsedCall, state: str, responses: dict[str, Any]
    ) -> dict[str, Any]:
        """Continue a call that is repeated with answers to the questions of its task (2026-07-28)."""
        caller = call.client.caller
        task_id = self._states.task_in(caller, state, call.definition.name)
        if OUTCOME_KEY in responses:
            ended = await self._tasks.answer(caller, task_id)
            asked = outcome_questions(ctx, call.client.principal, ended)
            return await self._resolved(ctx, call, ended, parsed_answers(responses, asked).get(OUTCOME_KEY))
        questions = (await self._tasks.describe(caller, task_id)).input_requests or {}
        await self._submit(call, task_id, parsed_answers(responses, questions))
        seconds = 0.0 if _returns_task(ctx, call, TaskUse.AFTER_QUESTIONS) else call.wait_seconds
        return await self._wire_result(ctx, call, await self._wait_with_progress(ctx, call, task_id, {}, seconds))

    async def _resolved(
        self, ctx: versions.Context, call: ParsedCall, ended: TaskAnswer, given: InputAnswer | None
    ) -> dict[str, Any]:
        """Record what the client's user found out about a call with an unknown outcome, and return the result of its
        task; with `retry`, that of the task that calls the tool again.
        """
        request = resolution_in(given) if given is not None else None
        if request is None:
            return await self._wire_result(ctx, call, ended, asks=False)
        caller = call.client.caller
        with suppress(NotResolvable):  # somebody else has resolved it: that holds
            await self._services.resolutions.resolve(caller, ended.task.id, request)
        resolved = await self._tasks.answer(caller, ended.task.id)
        again = resolved.task.resolution.task_id if resolved.task.resolution is not None else None
        if again is not None:
            resolved = await self._wait_with_progress(ctx, call, again, {}, call.wait_seconds)
        return await self._wire_result(ctx, call, resolved, asks=again is not None)

    def _input_required(self, call: ParsedCall, task: Task, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        required = {
            "resultType": "input_required",
            "inputRequests": input_requests(questions),
            "requestState": self._states.state_of(call.client.caller, task.id, call.definition.name),
        }
        handoffs = handoffs_meta(questions)
        return {**required, "_meta": handoffs} if handoffs else required

    async def _wire_result(
        self, ctx: versions.Context, call: ParsedCall, answer: TaskAnswer, *, asks: bool = True
    ) -> dict[str, Any]:
        """`CallToolResult`, `input_required`, or a task: whichever fits the state of the task.

        Unless `asks` is false, the client's user is asked about an unknown outcome first.
        """
        client = call.client
        if asks and (unknown := outcome_questions(ctx, client.principal, answer)):
            if versions.is_modern(ctx):
                return self._input_required(call, answer.task, unknown)
            given = await self._questions.ask_outcome(ctx, client.principal, unknown[OUTCOME_KEY])
            return await self._resolved(ctx, call, answer, given)
        task = answer.task
        meta: dict[str, JsonValue] = {TASK_META: task.id}
        if answer.result is not None:
            result = await self.result_for_client(ctx, client, call.definition.name, answer.result)
            result = await self._with_signed_links(client, result)
            if task.reused is not None:
                meta[REUSED_META] = task.reused.model_dump(mode="json")
                result = with_origin_note(result, task.reused)
            return call_result(result, mode=client.mode, meta=meta)
        questions = answerable(ctx, task.input_requests, client.principal) if versions.is_modern(ctx) else {}
        if task.status is TaskStatus.INPUT_REQUIRED and questions:
            return self._input_required(call, task, questions)
        if _returns_task(ctx, call, TaskUse.AFTER_QUESTIONS):
            return {"resultType": "task", **modern_task(task)}
        working = await self._state_of_run(call, task)
        if working is None:  # It may have ended, for example with a refusal.
            working = (await self._tasks.answer(client.caller, task.id)).result
        if working is None:
            working = dialect_of(call.client.mode).still_working(call.definition, task)
        return call_result(await self.result_for_client(ctx, client, task.tool, working), mode=client.mode, meta=meta)

    async def _with_signed_links(self, client: Client, result: ToolResult) -> ToolResult:
        """Sign links to platform records, in modes whose clients expect signed links."""
        if not dialect_of(client.mode).signs_links or not any(isinstance(one, ResourceLink) for one in result.content):
            return result

        async def signed(block: Content) -> Content:
            if not isinstance(block, ResourceLink):
                return block
            uri = await self._services.record_links.signed(client.caller, block.uri)
            return block.model_copy(update={"uri": uri})

        return result.model_copy(update={"content": tuple(await asyncio.gather(*map(signed, result.content)))})

    async def _state_of_run(self, call: ParsedCall, task: Task) -> ToolResult | None:
        """Return the mode's description of a running run; None if unavailable."""
        dialect = dialect_of(call.client.mode)
        state_tool = dialect.state_tool_of(call.definition) if call.definition.calls_actor else None
        if state_tool is None:
            return None
        run_id = await self._begun_run(call.client, task)
        if run_id is None:
            return None
        asked = {"tool": state_tool, "arguments": dialect.state_arguments(run_id)}
        request = call.request.model_copy(update={**asked, "session_id": None, "tool_mask": None})
        if isinstance(request, ConnectedTaskRequest) and not request.names_payer:
            request = request.model_copy(update={"payment": None})  # It paid for the start.
        try:
            looked = await self._tasks.start(call.client.caller, request)
            answer = await self._tasks.answer_or_question(call.client.caller, looked.id, wait_seconds=_STATE_SECONDS)
        except ApiError:
            return None
        return answer.result if answer.result is not None and not answer.result.is_error else None

    async def _begun_run(self, client: Client, task: Task) -> str | None:
        """Return the id of the task's run, once it has begun; None when that takes long or never happens."""
        if task.run is not None:
            return task.run.run_id
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_STATE_SECONDS):
                # The event has the run before the task's own state has it.
                async for event in await self._tasks.events(client.caller, task.id):
                    if event.name in _BEGUN:
                        run_id = event.data.get("run_id")
                        return run_id if isinstance(run_id, str) else None
        return None

    def _start_task(self, call: ParsedCall) -> Coroutine[Any, Any, Task]:
        return self._tasks.start(call.client.caller, call.request, idempotency_key=call.idempotency_key)

    async def _wait_with_progress(
        self, ctx: versions.Context, call: ParsedCall, task_id: str, responses: dict[str, Any], seconds: float
    ) -> TaskAnswer:
        """Wait as `_wait` does, and report progress and log messages if the request asks for them."""
        if not wants_progress(ctx) and not _wants_log(ctx, call.client):
            return await self._wait(ctx, call, task_id, responses, seconds)
        reporting = asyncio.create_task(self._report_events(ctx, call, task_id))
        try:
            answer = await self._wait(ctx, call, task_id, responses, seconds)
            if answer.result is not None:
                # Notifications from before the result are sent before it.
                await asyncio.wait({reporting}, timeout=_FLUSH_SECONDS)
            return answer
        finally:
            reporting.cancel()

    async def _report_events(self, ctx: versions.Context, call: ParsedCall, task_id: str) -> None:
        named = call.definition.actor or call.request.arguments.get("actor")
        steps = ProgressSteps(dialect_of(call.client.mode).progress, named if isinstance(named, str) else None)
        with suppress(ApiError):
            async for event in await self._tasks.events(call.client.caller, task_id):
                if event.name == "task_completed":
                    return
                note = steps.after(event.name, event.data)
                if note is not None:
                    await _send_note(ctx, call.client, note)

    async def _wait(
        self, ctx: versions.Context, call: ParsedCall, task_id: str, responses: dict[str, Any], seconds: float
    ) -> TaskAnswer:
        """Return the task's result, or its state after `seconds` or with a question for the next request."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + seconds
        while True:
            seconds_left = max(deadline - clock.time(), 0)
            answer = await self._tasks.answer_or_question(call.client.caller, task_id, wait_seconds=seconds_left)
            questions = answer.task.input_requests or {}
            if not questions or answer.result is not None:
                return answer
            given = parsed_answers({key: responses.pop(key) for key in questions if key in responses}, questions)
            if given:
                await self._submit(call, task_id, given)
                continue
            for_client = answerable(ctx, questions, call.client.principal)
            if versions.is_modern(ctx) or not for_client:
                return answer
            await self._questions.ask_for_task(ctx, call.client.principal, task_id, for_client)

    async def _submit(self, call: ParsedCall, task_id: str, answers: Any) -> None:
        """Submit answers. Invalid and late ones change nothing: the task repeats its question."""
        if not answers:
            return
        try:
            await self._tasks.submit_input(call.client.principal, task_id, answers)
        except (InvalidCall, TaskFinished, ForbiddenScope, ApproverNeeded):
            return

    def _parse_call(
        self, ctx: versions.Context, client: Client, tools: ToolSet, definition: Tool, params: CallToolRequestParams
    ) -> ParsedCall:
        meta, longest = _meta_of(params), self._services.settings.max_wait_seconds
        schema, dialect = own_schema(definition, client.mode, longest), dialect_of(client.mode)
        read = coerced(schema, _own_arguments(dialect, definition, params.arguments or {}))
        written = dialect.arguments(definition, schema, None if params.arguments is None else read.arguments)
        pays = client.connection.selection.payment
        taken = _without_payment(pays, definition, GivenCall(definition.name, written, meta, payment_signature(ctx)))
        arguments, wait = split_wait(definition, client.mode, taken.arguments, meta, longest)
        request = request_meta.task_request(
            meta,
            tool=definition.name,
            arguments=cast(dict[str, JsonValue], arguments),
            mode=client.mode,
            payment=taken.payment,
            unpaid=taken.unpaid,
            terms=taken.terms,
            pays_with=pays.name if pays is not None else None,
            names_payer=pays is not None and pays.names_payer,
            offered_tools=tuple(tools.tools),
            changes=read.changes,
            connection=client.connection.session,
        )
        return ParsedCall(client, definition, request, request_meta.idempotency_key(meta), wait)


def _unwrapped(tools: ToolSet, params: CallToolRequestParams) -> CallToolRequestParams:
    """Return the call that a `call-tool` contains. Other calls, and those with invalid arguments, are unchanged."""
    wrapped = wrapped_call(tools, params.name, params.arguments)
    return params if wrapped is None else params.model_copy(update=dict(wrapped))


def _own_arguments(dialect: Dialect, definition: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments under the tool's own names, where it is listed under others."""
    shown = dialect.shown(definition)
    return arguments if shown is None else shown.own_arguments(arguments)


def _as_shown(dialect: Dialect, definition: Tool, error: InvalidCall) -> InvalidCall:
    """Return the refusal with the names of arguments under which the tool is listed."""
    shown = dialect.shown(definition)
    if shown is not None:
        error.envelope = shown.shown_error(error.envelope)
    return error


def _meta_of(params: CallToolRequestParams) -> dict[str, Any]:
    return cast(dict[str, Any], params.meta or {})


def _without_payment(pays: Payment | None, definition: Tool, call: GivenCall) -> TakenPayment:
    """The arguments and the payment, which must not reach a workflow's history. Raises `InvalidCall` if it is due."""
    if pays is None or definition.payment_scheme is None:
        return TakenPayment(dict(call.arguments))
    try:
        return pays.taken_from(call)
    except ToolError as error:
        raise InvalidCall(error.envelope) from error


def _returns_task(ctx: versions.Context, call: ParsedCall, *uses: TaskUse) -> bool:
    return versions.supports_tasks(ctx) and call.definition.task_use in uses


def _require_client_needs(ctx: versions.Context, definition: Tool) -> None:
    """Raise unless the client declares every capability that the tool needs."""
    missing = [name for name in definition.client_needs if not versions.has_capability(ctx, name)]
    if missing and versions.is_modern(ctx):
        raise versions.missing_capabilities({name: {} for name in missing})
    if missing:
        raise MCPError(INVALID_PARAMS, f"{definition.name} needs a client that declares: {', '.join(missing)}.")
    if definition.task_use is TaskUse.REQUIRED and versions.is_modern(ctx) and not versions.supports_tasks(ctx):
        raise versions.missing_capabilities({"extensions": {versions.TASKS_EXTENSION: {}}})
    if definition.task_use is TaskUse.REQUIRED and not versions.is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, f"{definition.name} can only be called as a task.")


class PendingCalls:
    """The tasks of requests that have no result yet.

    The SDK interrupts the handler of a cancelled request before the notification arrives here, so interrupted requests
    stay. Requests without a session (2026-07-28 over HTTP) cannot be cancelled by another request, and are left out.
    """

    def __init__(self, tasks: TaskClient) -> None:
        self._tasks = tasks
        self._pending: LRUCache[_Key, tuple[Client, asyncio.Task[Task]]] = LRUCache(_MAX_CALLS)

    async def start(self, ctx: versions.Context, client: Client, start: Coroutine[Any, Any, Task]) -> Task:
        """Start and remember the task of the request, even if the client disconnects during the start."""
        starting = asyncio.create_task(start)
        starting.add_done_callback(_retrieve_error)
        key = _key_of(ctx, client, str(ctx.request_id))
        if key is not None:
            self._pending[key] = (client, starting)
        return await asyncio.shield(starting)

    def forget(self, ctx: versions.Context, client: Client) -> None:
        """The request has its result: there is nothing left to cancel."""
        key = _key_of(ctx, client, str(ctx.request_id))
        if key is not None:
            self._pending.pop(key, None)

    async def cancel(self, ctx: versions.Context, client: Client, request_id: str) -> None:
        """Cancel the task of a request that the same client sent over the same connection, if it is pending."""
        key = _key_of(ctx, client, request_id)
        pending = self._pending.pop(key, None) if key is not None else None
        if pending is None:
            return
        owner, starting = pending
        with suppress(ApiError, MCPError):
            task = await starting
            await self._tasks.cancel_if_open(owner.caller, task.id)


def _key_of(ctx: versions.Context, client: Client, request_id: str) -> _Key | None:
    request = http_request(ctx)
    if request is not None and versions.session_of(request) is None:
        return None
    return (client.connection.key, request_id)


def _retrieve_error(starting: "asyncio.Task[Task]") -> None:
    """Mark the error as retrieved: an interrupted request no longer awaits it."""
    if not starting.cancelled():
        starting.exception()


def _wants_log(ctx: versions.Context, client: Client) -> bool:
    """2025-11-25: after `logging/setLevel`. 2026-07-28: when the request's `_meta` has a log level."""
    meta: Mapping[str, Any] = ctx.meta or {}
    level = meta.get(_LOG_LEVEL_META) if versions.is_modern(ctx) else client.connection.log_level
    return level in _LEVELS and _LEVELS.index(level) <= _LEVELS.index("info")


async def _send_note(ctx: versions.Context, client: Client, note: ProgressNote) -> None:
    session = ctx.session
    if wants_progress(ctx) and note.meta is None:
        await session.report_progress(note.done or 0.0, note.total, note.message)
    elif wants_progress(ctx):
        notification = progress_notification(ctx, note, note.meta or {})
        await session.send_notification(notification, related_request_id=ctx.request_id)
    if _wants_log(ctx, client):
        params = types.LoggingMessageNotificationParams(level="info", logger="outlast", data=note.message)
        logged = types.LoggingMessageNotification(params=params)
        await session.send_notification(logged, related_request_id=ctx.request_id)
