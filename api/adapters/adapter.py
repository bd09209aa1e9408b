"""`Adapter`: tools for a model of any provider, in three lines of an agent's loop, with or without the REST server.

The tools have names that the provider accepts. The calls of one message run concurrently, each as a task.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Unpack

from pydantic import ValidationError

from outlast.activities.contracts import Caller, ErrorEnvelope, JsonObject, Violation
from outlast.api.access.principal import LOCAL, Principal
from outlast.api.adapters.message_formats import (
    AnthropicMessages,
    BackEnd,
    CallReport,
    McpMessages,
    ModelCall,
    OpenAIChat,
    OpenAIResponses,
    Outcome,
)
from outlast.api.catalog.catalog import Catalogue, MaskGate, log_listing, narrowed
from outlast.api.catalog.discovery import ToolSearch, has_discovery, listed, with_discovery, wrapped_call
from outlast.api.catalog.portable_schemas import fitting_names, portable
from outlast.api.errors import (
    ApiError,
    BadRequest,
    InvalidCall,
    MaskedToolCalled,
    ToolQuarantined,
    UnknownToolCalled,
    tool_error,
)
from outlast.api.local_calls import LocalCall
from outlast.api.local_tools import LocalTools
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.api.tasks.arguments import DEFAULT_WAIT_SECONDS
from outlast.api.tasks.task_text import still_working
from outlast.contracts.options import StartOptions, to_wire
from outlast.contracts.tasks import ConnectedTaskRequest, TaskRequest
from outlast.worker.connection import connect
from outlast.workflows.contracts.tool_calls import CallOptions, ToolResult
from outlast.workflows.contracts.tool_masks import normalised
from outlast.workflows.tools.common.discovery_tools import DISCOVERY_TOOLS
from outlast.workflows.tools.common.invalid import invalid_result
from outlast.workflows.tools.core.standard_selection import TASK_COMPANIONS
from outlast.workflows.tools.extensions import load_extensions
from outlast.workflows.tools.framework.selection import Selection
from outlast.workflows.tools.framework.tool import Tool, invalid_arguments
from outlast.workflows.tools.registry import ToolSet, UnknownTool, base_tools, tool_set, unknown_tool
from outlast.workflows.turns.steps import cut_off_call

MAX_CALLS = 128
"""Maximum number of calls in one message."""
_NOT_ABOUT_THE_CALL = frozenset({401, 503})
"""Statuses of errors that are not about the call: the program should retry, not the model."""


@dataclass(frozen=True)
class CallScope:
    """The session and message of calls, and their options. Call IDs are unique within session and message."""

    session_id: str | None = None
    message_id: str | None = None
    options: CallOptions = field(default_factory=CallOptions)
    tool_mask: Mapping[str, bool] | None = None
    """By the names that the model was offered, or the tools' own."""

    @property
    def options_for_started_calls(self) -> dict[str, Any]:
        """Options for the calls that a local tool starts. Not in JSON, which would mask secrets."""
        return self.options.model_dump(exclude_unset=True)

    def idempotency_key(self, call: ModelCall) -> str | None:
        """Return the key that makes repeated requests for the same call one task."""
        if not call.marks_retry:
            return None
        # No part of the scope may contain a slash, so no two calls have the same key.
        return "/".join([str(call.id), self.session_id or "", self.message_id or ""])


@dataclass(frozen=True)
class OfferedTools:
    """The tools, and their own names by the names shown to the provider. If `closed`, no other tool may be called."""

    tools: ToolSet
    names: Mapping[str, str]
    closed: bool

    def listed(self, back_end: BackEnd) -> list[JsonObject]:
        """Return the list of tools in the provider's form. The same tools give the same bytes."""
        return self.described(back_end, listed(self.tools))

    def described(self, back_end: BackEnd, tools: ToolSet) -> list[JsonObject]:
        """Return these tools, under the names that are shown, in the provider's form."""
        return [
            back_end.tool(portable(tools.tools[own], shown)) for shown, own in self.names.items() if own in tools.tools
        ]


class CallRunner:
    """Runs calls. A failure is an outcome, too."""

    def __init__(self, services: Services) -> None:
        self._tasks = services.tasks
        self._catalogue = services.catalogue
        self._max_wait_seconds = services.settings.max_wait_seconds
        self._local_tools = LocalTools(services)
        self._masks = MaskGate(services.settings)
        self._search = ToolSearch()

    async def run(
        self,
        principal: Principal,
        offered: OfferedTools,
        calls: Sequence[ModelCall],
        scope: CallScope,
        wait_seconds: float,
    ) -> tuple[Outcome, ...]:
        """Run the calls, and return their outcomes in the same order after at most `wait_seconds`.

        Raises `BadRequest` before anything is started, and errors that are not about a call: `TemporalUnavailable`,
        `PlatformUnavailable`, `Unauthenticated`. A repeated request then finds the tasks that were started.
        """
        if len(calls) > MAX_CALLS:
            raise BadRequest(f"The message has {len(calls)} tool calls; the limit is {MAX_CALLS}.")
        _check(scope)
        scope = replace(scope, tool_mask=self._masks.effective(scope.tool_mask, offered.names))
        wait = max(0.0, min(wait_seconds, self._max_wait_seconds))
        running = [
            _cut_off(call) if call.cut_off else self._outcome(principal, offered, call, scope, wait) for call in calls
        ]
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return tuple(outcome for outcome in outcomes if isinstance(outcome, Outcome))

    async def _outcome(
        self, principal: Principal, offered: OfferedTools, call: ModelCall, scope: CallScope, wait: float
    ) -> Outcome:
        """Run a call, or the one that a `call-tool` contains, which counts as that tool's."""
        wrapped = wrapped_call(offered.tools, call.name, call.arguments) if call.flaw is None else None
        inner = call if wrapped is None else replace(call, name=wrapped.name, arguments=wrapped.arguments)
        return replace(await self._ran(principal, offered, inner, scope, wait), call=call)

    async def _ran(
        self, principal: Principal, offered: OfferedTools, call: ModelCall, scope: CallScope, wait: float
    ) -> Outcome:
        try:
            definition = await definition_named(offered, self._catalogue, principal.caller, call.name)
        except (UnknownTool, UnknownToolCalled, ToolQuarantined) as error:
            is_absent = not isinstance(error, ToolQuarantined)
            allowed = _allowed(offered, error.envelope, scope) if is_absent else None
            if allowed is None:  # there is no such mode, or the reason is another one
                return Outcome(call, call.name, ToolResult.failed(error.envelope), unknown_tool=True)
            result = invalid_result(call.name, call.arguments, allowed)
            await self._tasks.report_refused_call(principal.caller, scope.session_id, result.error or error.envelope)
            return Outcome(call, call.name, result, unknown_tool=True)
        try:
            return await self._carried_out(principal, offered, definition, call, scope, wait)
        except MaskedToolCalled as error:
            shown = error.envelope.model_copy(update={"allowed_tools": _shown(offered, error.envelope.allowed_tools)})
            return Outcome(call, definition.name, ToolResult.failed(shown))
        except InvalidCall as error:
            shown = portable(definition, call.name).shown_error(error.envelope)
            return Outcome(call, definition.name, ToolResult.failed(shown))
        except ApiError as error:
            if error.status in _NOT_ABOUT_THE_CALL:
                raise
            return Outcome(call, definition.name, ToolResult.failed(tool_error(error, definition.name)))

    async def _carried_out(
        self,
        principal: Principal,
        offered: OfferedTools,
        definition: Tool,
        call: ModelCall,
        scope: CallScope,
        wait: float,
    ) -> Outcome:
        if call.flaw is not None:
            flawed = invalid_arguments(definition.name, (Violation(path="", message=call.flaw),))
            await self._tasks.report_refused_call(principal.caller, scope.session_id, flawed)
            raise InvalidCall(flawed)
        arguments = portable(definition, call.name).own_arguments(call.arguments)
        if definition.in_front:
            try:
                self._masks.admit(definition.name, scope.tool_mask, offered.tools.tools)
            except MaskedToolCalled as error:
                await self._tasks.report_refused_call(principal.caller, scope.session_id, error.envelope)
                raise
            local = LocalCall(
                principal,
                definition,
                arguments,
                mode=offered.tools.mode,
                mask=self._masks.effective(scope.tool_mask),
                offered=tuple(offered.tools.tools),
                options=scope.options_for_started_calls,
            )
            if has_discovery(offered.tools) and definition in DISCOVERY_TOOLS:
                describe = partial(offered.described, McpMessages())
                return Outcome(
                    call, definition.name, await self._search.answer(local, offered.tools, describe, offered.names)
                )
            return Outcome(call, definition.name, await self._local_tools.call(local))
        request = ConnectedTaskRequest(
            tool=definition.name,
            arguments=arguments,
            mode=offered.tools.mode,
            session_id=scope.session_id,
            message_id=scope.message_id,
            tool_call_id=str(call.id) if call.marks_retry else None,
            options=scope.options,
            offered_tools=tuple(offered.tools.tools) if offered.closed or scope.tool_mask else (),
            tool_mask=dict(scope.tool_mask) if scope.tool_mask else None,
            changes=call.changes,
        )
        task = await self._tasks.start(principal.caller, request, idempotency_key=scope.idempotency_key(call))
        answer = await self._tasks.answer_or_question(principal.caller, task.id, wait_seconds=wait)
        if answer.result is not None:
            return Outcome(call, definition.name, answer.result, answer.task)
        unfinished = still_working(answer.task, run_report=definition.calls_actor)
        return Outcome(call, definition.name, unfinished, answer.task, finished=False)


async def _cut_off(call: ModelCall) -> Outcome:
    """Answer an incomplete call, which its session does not count."""
    return Outcome(call, call.name, ToolResult.failed(cut_off_call(call.name)))


async def load_offered(
    catalogue: Catalogue, caller: Caller, *, mode: str, selectors: tuple[str, ...] | None, most_listed: int = 0
) -> OfferedTools:
    """Load the tools of `selectors`, or of an MCP connection without a selection, and the tools that manage tasks. With
    more than `most_listed` tools (0: any number), most are found by search.

    Raises `UnknownToolCalled` for an unknown mode.
    """
    loaded = await catalogue.load(Selection(mode, selectors), caller)
    return _offered(with_discovery(loaded, most_listed), closed=selectors is not None)


async def load_callable(catalogue: Catalogue, caller: Caller, *, mode: str, most_listed: int = 0) -> OfferedTools:
    """Load all tools that can be called, for programs that do not report the tools they offered."""
    return _offered(with_discovery(await catalogue.tools(mode, caller), most_listed), closed=False)


async def definition_named(offered: OfferedTools, catalogue: Catalogue, caller: Caller, name: str) -> Tool:
    """Return the tool that a model calls `name`. Raises `UnknownTool`, `UnknownToolCalled`, `PlatformUnavailable`."""
    own = offered.names.get(name, name)
    try:
        return offered.tools.get(own)
    except UnknownTool as error:
        if offered.closed:
            raise unknown_tool(own, tuple(offered.names)) from error
    return await catalogue.resolve(offered.tools.mode, own, caller)


def _offered(loaded: ToolSet, *, closed: bool) -> OfferedTools:
    base = base_tools(loaded.mode)
    companions = (base.tools[name] for name in TASK_COMPANIONS if name in base.tools)
    tools = loaded.including(*companions).tools.values()
    # The remaining tools need a connection that keeps its list of tools, which does not exist here.
    offered = tool_set(loaded.mode, (tool for tool in tools if tool.in_front or not tool.needs_connection))
    return OfferedTools(offered, fitting_names(offered.tools), closed)


def _check(scope: CallScope) -> None:
    try:
        TaskRequest(tool="any", session_id=scope.session_id, message_id=scope.message_id)
    except ValidationError as error:
        raise BadRequest("session_id or message_id is invalid: " + error.errors()[0]["msg"]) from error
    if scope.message_id and "/" in scope.message_id:
        raise BadRequest("message_id must not hold a slash.")


def _allowed(offered: OfferedTools, unknown: ErrorEnvelope, scope: CallScope) -> tuple[str, ...] | None:
    """Return the available tools in place of an unknown one, under the names that the model was shown."""
    own = {shown: name for shown, name in offered.names.items() if shown in (unknown.allowed_tools or ())}
    known = tuple(own.get(name, name) for name in unknown.allowed_tools or ())
    active = narrowed(unknown.model_copy(update={"allowed_tools": known}), scope.tool_mask).allowed_tools
    return None if unknown.allowed_tools is None else _shown(offered, active)


def _shown(offered: OfferedTools, own: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names under which the model was offered these tools."""
    names = {name: shown for shown, name in offered.names.items()}
    return tuple(names.get(name, name) for name in own or ())


BACK_ENDS: Mapping[str, BackEnd] = MappingProxyType(
    {back_end.name: back_end for back_end in (AnthropicMessages(), OpenAIResponses(), OpenAIChat(), McpMessages())}
)
"""The back ends by name. A new back end is a translating module and an entry here."""


@dataclass(frozen=True)
class Answered:
    """The outcome of a message's calls. `append` is empty if the model called no tool."""

    append: list[JsonObject]
    """To be appended to the conversation unchanged."""
    calls: tuple[CallReport, ...]


class Adapter:
    """One provider's view of the tools, for one caller."""

    def __init__(
        self,
        services: Services,
        back_end: BackEnd,
        *,
        principal: Principal = LOCAL,
        mode: str | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        """Select `tools` by category, tag, name or Actor; no other tool can be called then.

        Without `tools`, the server's default tools are listed, and every tool can be called.
        """
        self._services = services
        self._back_end = back_end
        self._principal = principal
        self._mode = mode or services.settings.mode
        self._selectors = None if tools is None else tuple(tools)
        self._runner = CallRunner(services)

    async def tools(self) -> list[JsonObject]:
        """Return the list of tools to send with every request. Raises `UnknownToolCalled` for an unknown mode."""
        offered = await self._offered()
        log_listing(offered.tools, self._selectors, caller=self._principal.caller.id)
        return offered.listed(self._back_end)

    async def answer(
        self,
        message: object,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        options: CallOptions | None = None,
        wait_seconds: float = DEFAULT_WAIT_SECONDS,
        **call_options: Unpack[StartOptions],
    ) -> Answered:
        """Run the tool calls in `message`, a model's message as the provider returned it, concurrently.

        Each call has the `call_options`, by name, or `options` in the form of the REST API. `tool_mask` limits the
        tools that can be called; the list of tools stays. A call that is still running after `wait_seconds` is answered
        with its task's id. A repeated call (same id, session and message) is the same task. Raises `TypeError` for an
        unknown option, for `options` beside options by name, and for `mode` and `idempotency_key`; and the `ApiError`s
        of `CallRunner`.
        """
        chosen = chosen_options(options, call_options)
        calls = self._back_end.calls(message)
        if self._selectors is None:
            most_listed = self._services.settings.max_listed_tools
            offered = await load_callable(
                self._services.catalogue, self._principal.caller, mode=self._mode, most_listed=most_listed
            )
        else:
            offered = await self._offered()
        scope = CallScope(session_id, message_id, chosen, normalised(call_options.get("tool_mask")))
        outcomes = await self._runner.run(self._principal, offered, calls, scope, wait_seconds)
        return Answered(self._back_end.append(outcomes), tuple(CallReport.of(outcome) for outcome in outcomes))

    async def _offered(self) -> OfferedTools:
        return await load_offered(
            self._services.catalogue,
            self._principal.caller,
            mode=self._mode,
            selectors=self._selectors,
            most_listed=self._services.settings.max_listed_tools,
        )


def chosen_options(options: CallOptions | None, by_name: StartOptions) -> CallOptions:
    """Return the options of each call, in the form of the REST API. Raises `TypeError`, see `Adapter.answer`."""
    for name in ("mode", "idempotency_key"):
        if by_name.get(name) is not None:
            raise TypeError(f"`answer` takes no {name!r}: an adapter has its mode, and each call its key.")
    body = to_wire(StartOptions, by_name, known=("session_id", "message_id", "options", "wait_seconds")).get("options")
    if options is not None and body:
        raise TypeError("Give options by name, or `options`.")
    return options or CallOptions.model_validate(body or {})


async def connected_services(settings: ApiSettings | None = None) -> Services:
    """Connect the services for an `Adapter` outside the server process, with the settings of the environment.

    Raises `RuntimeError` when Temporal cannot be reached, `SealError` without the key ring of the workers.
    """
    own = settings or ApiSettings()
    load_extensions(own.tool_modules)
    return Services(own, await connect(own))
