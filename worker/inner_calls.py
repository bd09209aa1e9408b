"""The decision on a call that a tool's function makes: the rules and limits that a call from outside has to pass.

Arguments that may hold secrets are encrypted as a whole when the function makes the call (`Wait.sealed`). The decision
is on the arguments themselves, and its result has their secret parts encrypted, as in a call from outside.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import cast
from uuid import uuid4

from cachetools import TTLCache
from pydantic import JsonValue

from outlast.activities.actors.activities import fetch_actor_definition
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.classify import classify
from outlast.activities.json_schema.coercion import coerced, with_kinds_sent
from outlast.activities.json_schema.violations import quick_violations
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer, seal_value
from outlast.suggestions import suggested
from outlast.workflows.contracts.sessions import TurnTool
from outlast.workflows.contracts.steps import Wait
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.contracts.tool_masks import is_active
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common.invalid import unknown_tool_envelope
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.payments import misplaced_payment
from outlast.workflows.tools.framework.calls import INNER_MODE, MAX_DEPTH, InnerAdmission, InnerCallInput
from outlast.workflows.tools.framework.ids import MAX_ID_CHARS
from outlast.workflows.tools.framework.sealed_parts import arguments_with_secrets, with_sealed_parts
from outlast.workflows.tools.framework.tool import Tool, invalid_arguments
from outlast.workflows.tools.registry import admitted_tool, executor_kind, own_tools, tools_of
from outlast.workflows.turns.steps import nameless_actor, nameless_plan, planned_actors, ruling_of

_logger = logging.getLogger("outlast.worker")
_LOOKUP_SECONDS = 10
_MAX_SCHEMAS = 1_000
_SCHEMA_SECONDS = 300


class InnerSecrets:
    """Encrypts secrets in arguments of calls that functions make, and keys digests of their arguments."""

    def __init__(self, platform: ApifyPlatform, sealer: SecretSealer) -> None:
        self._platform = platform
        self._sealer = sealer
        self._schemas = TTLCache[tuple[str, str], JsonObject | None](_MAX_SCHEMAS, _SCHEMA_SECONDS)

    def digests(self, digest: str) -> tuple[str, ...]:
        """Keyed forms of a digest, one per key of the ring, the encrypting key's first."""
        return self._sealer.digests(digest)

    def hidden(self, wait: Wait, tool: Tool | None, caller_id: str) -> Wait:
        """Return a call as the history may hold it. Without `tool`, which another worker may have, nothing of it
        can be read.
        """
        names = wait.details.keys() if tool is None else wait.details.keys() & arguments_with_secrets(tool)
        if wait.kind != "call" or not names:
            return wait
        sealed = {name: seal_value(wait.details[name], self._sealer, purpose=caller_id) for name in names}
        return wait.model_copy(update={"details": {**wait.details, **sealed}, "sealed": tuple(sorted(names))})

    def opened(self, request: InnerCallInput) -> InnerCallInput:
        """Return the request with the arguments themselves. Raises `SealError`."""
        if not request.sealed:
            return request
        hidden = {name: request.arguments[name] for name in request.sealed}
        opened = self._platform.open_input(hidden, Caller(id=request.caller_id))
        return request.model_copy(update={"arguments": {**request.arguments, **cast(JsonObject, opened)}})

    async def sealed(self, request: InnerCallInput, tool: Tool, admission: InnerAdmission) -> InnerAdmission:
        """Return the decision with the secret parts of its arguments encrypted, and without them in a refusal."""
        if admission.refusal is not None:
            return admission.model_copy(
                update={"refusal": _without_values(admission.refusal, frozenset(request.sealed))}
            )
        if not arguments_with_secrets(tool) & admission.arguments.keys():
            return admission
        seal = partial(seal_value, sealer=self._sealer, purpose=request.caller_id)
        schema = await self._input_schema(request, admission.arguments.get("actor")) if tool.calls_actor else None
        arguments = with_sealed_parts(seal, tool, admission.arguments, schema)
        return admission.model_copy(update={"arguments": arguments})

    async def _input_schema(self, request: InnerCallInput, actor: JsonValue) -> JsonObject | None:
        """The input schema of the Actor; None if it is not known, or of an MCP server's tool."""
        if request.caller is None or not isinstance(actor, str):
            return None
        name, mcp_tool = split_actor_tool(actor)
        if mcp_tool is not None:
            return None
        key = (request.caller_id, name)
        if key not in self._schemas:
            try:
                looked_up = fetch_actor_definition(self._platform.client(request.caller), name)
                definition = await asyncio.wait_for(looked_up, _LOOKUP_SECONDS)
            except Exception as error:  # noqa: BLE001 (the call itself meets the same failure, and reports it)
                _logger.info("the whole input of %s is encrypted: %s", name, classify(error).message)
                return None
            self._schemas[key] = definition.input_schema if definition is not None else None
        return self._schemas[key]


def _without_values(refusal: ErrorEnvelope, sealed: frozenset[str]) -> ErrorEnvelope:
    """The error without values of encrypted arguments, which a violation may quote."""
    violations = tuple(
        one.model_copy(update={"message": "The value does not fit."}) if set(one.path.split("/")[1:2]) & sealed else one
        for one in refusal.violations or ()
    )
    return refusal.model_copy(update={"violations": violations or None})


def decided(request: InnerCallInput, tool: Tool) -> InnerAdmission:
    """Decide on a call of `tool`. An operator's `deny` or `ask` is applied by the task itself, as for other calls."""
    refusal = _refused_tool(request, tool)
    if refusal is not None:
        return InnerAdmission(refusal=refusal)
    read = coerced(tool.input_schema, request.arguments)
    arguments = read.arguments
    refusal = _refused_arguments(tool, arguments)
    if refusal is not None:
        hint = f"Change what you give to {request.called_from}, which made the call, or report it to its author."
        return InnerAdmission(refusal=refusal.model_copy(update={"hint": hint}) if refusal.violations else refusal)
    actor = arguments.get("actor") if tool.calls_actor else None
    actor = actor if isinstance(actor, str) else None
    place = TurnTool(
        shown=tool.name,
        name=tool.name,
        planned_actors=tool.planned_actors,
        planned_tasks=tool.planned_tasks,
        input_schema_json="{}",
    )
    rules = request.inner.rules
    refusal = nameless_actor(rules, tool.name, actor) or nameless_plan(rules, place, arguments)
    if refusal is not None:
        return InnerAdmission(refusal=refusal)
    ruling = ruling_of(rules, tool.name, actor, planned_actors(place, arguments))
    server, conversation = tool.server, request.inner.conversation
    return InnerAdmission(
        tool=tool.name,
        arguments=arguments,
        changes=() if tool.is_function else read.changes,  # a note would become part of a text
        permission=ruling if server is None else server.ruling(ruling),
        has_approval=tool.approval is not None,
        calls_tools=tool.calls_tools,
        admitted_tool=admitted_tool(tool),
        budget_usd=tool.budget_usd,
        is_function=tool.is_function,
        executor=executor_kind(ToolCall.model_construct(tool=tool.name, mode=INNER_MODE)),
        actor=actor[:MAX_ID_CHARS] if actor else None,
        server=server and server.for_call(caller_id=request.caller_id, conversation=conversation, task=uuid4().hex),
    )


def may_see(request: InnerCallInput, tool: Tool) -> bool:
    """Return whether a program may see a tool: it is offered to the caller, and no rule denies all its calls."""
    ruling = ruling_of(request.inner.rules, tool.name, None)
    return _refused_tool(request, tool) is None and (ruling is None or ruling.action != "deny")


def unknown_inner_tool(request: InnerCallInput, more: Iterable[Tool] = ()) -> ErrorEnvelope:
    """The error for a tool that this worker does not have. It suggests tools that the function may call, of `more`
    too.
    """
    names = [tool.name for tool in (*tools_of(INNER_MODE), *more) if _refused_tool(request, tool) is None]
    others = f" It can call: {suggested(names, request.tool)}." if names else ""
    advice = "Load its module on worker and API. An Actor is called with `call-actor` and its argument `actor`."
    unknown = unknown_tool_envelope(request.tool, names, otherwise=f"{advice}{others}")
    return unknown.model_copy(update={"message": f"There is no tool {unknown.tool!r} that a function can call."})


def _refused_tool(request: InnerCallInput, tool: Tool) -> ErrorEnvelope | None:  # noqa: PLR0911 (one per rule)
    """The error for a tool that this function may not call, whatever the arguments."""
    inner, name = request.inner, tool.name
    if inner.depth >= MAX_DEPTH:
        return _permanent(
            ErrorCategory.VALIDATION,
            name,
            f"{request.called_from} did not call {name}: at most {MAX_DEPTH} calls may be within each other.",
            "Report it to the tool's author: the tool may be calling itself without an end.",
        )
    if tool.needs_connection:
        return _permanent(
            ErrorCategory.VALIDATION, name, f"{name} belongs to a connection, and a function cannot call it.", None
        )
    is_outlasts = tool.server is None and name not in own_tools(INNER_MODE)
    is_offered = inner.builtin_tools is None or name in inner.builtin_tools or not is_outlasts
    if not is_offered:
        return _permanent(
            ErrorCategory.PERMISSION, name, f"This server does not offer {name} (OUTLAST_BUILTIN_TOOLS).", None
        )
    if (request.offered_tools and name not in request.offered_tools) or not is_active(name, request.tool_mask):
        return _permanent(
            ErrorCategory.PERMISSION,
            name,
            f"{request.called_from} may not call {name} here: it is not among the tools of this caller's connection.",
            f"Select {name} for the connection or the session, or have it switched on.",
        )
    if not tool.is_function and request.is_paid:
        return _permanent(
            ErrorCategory.PAYMENT,
            name,
            f"{request.called_from} cannot call {name}: this connection pays for each call, and a payment does not "
            "cover the calls that a tool makes.",
            "Call it over a connection with an account.",
        )
    if tool.runs_actor and not request.has_budget:
        return _permanent(
            ErrorCategory.PAYMENT,
            name,
            f"{name} was not called: the budget of {request.called_from}, or the operator's limit for it, is used up.",
            "Call again with a larger budget; the operator's limit is `per_task_usd` of the policy.",
        )
    return None


def _refused_arguments(tool: Tool, arguments: dict[str, JsonValue]) -> ErrorEnvelope | None:
    """The error for arguments that break the schema, or hold a payment."""
    schema = tool.input_schema
    misplaced = misplaced_payment(tool.name, schema, arguments)
    if misplaced is not None:
        return misplaced
    violations = with_kinds_sent(quick_violations(schema, arguments) or (), arguments)
    if violations:
        return invalid_arguments(tool.name, violations)
    try:
        tool.parse(arguments)
    except ToolError as error:
        return error.envelope
    return None


def _permanent(category: ErrorCategory, tool: str, message: str, hint: str | None) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(category, tool, message, hint=hint)
