"""From a request to a `ToolCall` that may be started: the tool found, arguments checked, secrets sealed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.secrets.sealed_json import MASK, seal_value
from outlast.activities.secrets.sealer import SecretSealer
from outlast.api.access.tool_masks import MaskGate, narrowed
from outlast.api.contracts.tasks import TaskRequest
from outlast.api.errors import CallTooLarge, InvalidCall, PlatformUnavailable, UnknownToolCalled
from outlast.api.offer.catalogue import Catalogue
from outlast.api.permissions import PermissionRules, actor_called, forbidden, names_of
from outlast.api.settings import ApiSettings
from outlast.api.tasks.arguments import check_actor_input, check_arguments, masks_allowed, refuse_masks_inside
from outlast.api.tasks.secret_inputs import JsonObject, map_secret_fields
from outlast.api.tasks.wait_argument import without_wait
from outlast.workflows.contracts.tool_calls import PermissionRuling, TaskSummary, ToolCall
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import executor_kind

MAX_CALL_BYTES = 32 * 1024 * 1024
"""For the memory of workers, which hold a call several times: above 256 KB it is kept in the output store, so that it
fits into a history whatever its size. OUTLAST_MAX_BODY_BYTES, 8 MB by default, refuses a REST call before that."""


@dataclass(frozen=True)
class BuiltCall:
    """A call that may be started, what its memo says of it, and the fingerprints by which it is known again."""

    call: ToolCall
    summary: TaskSummary
    fingerprints: tuple[str, ...]


class CallBuilder:
    """Refuses what cannot be carried out before anything is started."""

    def __init__(self, catalogue: Catalogue, sealer: SecretSealer, settings: ApiSettings) -> None:
        """Build calls as `settings` say where a request says nothing."""
        self._catalogue = catalogue
        self._sealer = sealer
        self._settings = settings
        self._permissions = PermissionRules.parse(settings.permissions)
        self._masks = MaskGate(settings)

    async def build(self, caller: Caller, request: TaskRequest) -> BuiltCall:
        """Raises `InvalidCall` for an unknown or masked tool or arguments that break its schema, and `CallTooLarge`."""
        mode = request.mode or self._settings.mode
        mask = self._masks.effective(request.tool_mask)
        definition = await self._resolved(mode, request.tool, caller, mask)
        available = request.offered_tools or (tuple((await self._catalogue.tools(mode, caller)).tools) if mask else ())
        self._masks.admit(definition.name, mask, available)
        _refuse_front_door_tool(definition)
        request = request.model_copy(update={"arguments": without_wait(definition, mode, request.arguments)})
        check_arguments(definition, request.arguments)
        schema = await self._actor_schema(definition, request.arguments, caller)
        check_actor_input(definition, request.arguments, schema)
        call = ToolCall(
            tool=definition.name,
            arguments=_with_secrets(definition, request.arguments, schema, self._seal_for(caller)),
            mode=mode,
            caller=caller,
            session_id=request.session_id,
            message_id=request.message_id,
            tool_call_id=request.tool_call_id,
            output=self._settings.output_policy(request.options.output),
            actor=definition.actor,
            payment=self._sealer.seal(request.payment, purpose=caller.id) if request.payment else None,
            offered_tools=request.offered_tools,
            tool_mask=mask,
            permission=await self._ruling(definition, request.arguments, caller),
            options=request.options.model_copy(update={"run_heartbeat_seconds": self._settings.run_heartbeat_seconds}),
        )
        size = len(call.model_dump_json())
        if size > MAX_CALL_BYTES:
            raise CallTooLarge(
                f"The call has {size} bytes; at most {MAX_CALL_BYTES} are taken. Put the large part of the input into "
                "a key-value store or dataset and pass its id.",
                tool=definition.name,
            )
        fingerprints = self._fingerprints(call, request)
        return BuiltCall(call, _summary(call, fingerprints[0]), fingerprints)

    async def _resolved(self, mode: str, tool: str, caller: Caller, mask: Mapping[str, bool] | None) -> Tool:
        try:
            return await self._catalogue.resolve(mode, tool, caller)
        except UnknownToolCalled as error:
            raise UnknownToolCalled(narrowed(error.envelope, mask)) from error

    async def edited(self, caller: Caller, *, mode: str, tool: str, arguments: JsonObject) -> JsonObject:
        """Arguments that somebody wrote while approving a call, as they may stand in a history.

        They are checked like those of a new call, but for values that were masked. Raises `InvalidCall`.
        """
        definition = await self._catalogue.resolve(mode, tool, caller)
        schema = await self._actor_schema(definition, arguments, caller)
        if schema is None:
            refuse_masks_inside(definition, arguments)
        with masks_allowed(arguments):
            check_arguments(definition, arguments)
            check_actor_input(definition, arguments, schema)
        ruling = await self._ruling(definition, arguments, caller)
        if ruling is not None and ruling.action == "deny":
            raise InvalidCall(forbidden(definition.name, caller.id, ruling.rule))
        seal = self._seal_for(caller)
        return _with_secrets(definition, arguments, schema, lambda value: value if value == MASK else seal(value))

    def refuse_denied(self, caller: Caller, definition: Tool) -> None:
        """Raise `InvalidCall` unless a tool that is answered in front may be called: there nobody can be asked."""
        ruling = self._permissions.ruling(caller.id, (definition.name,))
        if ruling is not None and ruling.action != "allow":
            raise InvalidCall(forbidden(definition.name, caller.id, ruling.rule))

    async def _ruling(
        self, definition: Tool, arguments: Mapping[str, JsonValue], caller: Caller
    ) -> PermissionRuling | None:
        """What the operator's rules say of the call. An Actor is looked up first: an id must not pass by its name."""
        if not self._permissions:
            return None
        actor = actor_called(definition, arguments)
        if actor is not None and definition.actor is None:
            name, mcp_tool = split_actor_tool(actor)
            full_name = await self._catalogue.full_name(name, caller)
            actor = f"{full_name}:{mcp_tool}" if mcp_tool else full_name
        return self._permissions.ruling(caller.id, names_of(definition, actor))

    async def _actor_schema(
        self, definition: Tool, arguments: Mapping[str, JsonValue], caller: Caller
    ) -> JsonObject | None:
        """The input schema of the Actor that will run; None when no Actor is involved or its schema is not known."""
        if definition.actor is not None:
            return definition.input_schema
        actor = arguments.get("actor")
        if not definition.calls_actor or not isinstance(actor, str):
            return None
        try:
            return await self._catalogue.input_schema(actor, caller)
        except PlatformUnavailable:
            return None

    def _seal_for(self, caller: Caller) -> Callable[[JsonValue], JsonValue]:
        return lambda value: seal_value(value, self._sealer, purpose=caller.id)

    def _fingerprints(self, call: ToolCall, request: TaskRequest) -> tuple[str, ...]:
        """What tells this request from another one under the same idempotency key.

        Keyed, since the request may hold secrets; over all of it, since which parts are secret is not always known;
        one per sealing key, since keys are rotated. The mask is left out: it changes nothing of what the call does, and
        a request repeated after masks were switched on or off is the same request.
        """
        said = request.model_dump(mode="json", exclude={"tool", "mode", "tool_mask"})
        return self._sealer.digests([call.tool, call.mode, said])


def _summary(call: ToolCall, fingerprint: str) -> TaskSummary:
    return TaskSummary(
        tool=call.tool,
        mode=call.mode,
        executor=executor_kind(call),
        actor=call.actor or _actor_argument(call),
        session_id=call.session_id,
        fingerprint=fingerprint,
        created_at=datetime.now(UTC),
    )


def _with_secrets(
    definition: Tool, arguments: JsonObject, schema: JsonObject | None, change: Callable[[JsonValue], JsonValue]
) -> JsonObject:
    """`arguments` with `change` (sealing) applied to what is secret in an Actor's input.

    When the Actor's schema is not known now, its whole input is treated as secret.
    """
    if definition.actor is not None:
        return map_secret_fields(arguments, schema or {}, change)
    run_input = arguments.get("input")
    if not definition.calls_actor or not isinstance(run_input, dict):
        return arguments
    protected = {"input": change(run_input)} if schema is None else map_secret_fields(run_input, schema, change)
    return {**arguments, "input": protected["input"] if schema is None else protected}


def _refuse_front_door_tool(definition: Tool) -> None:
    if not definition.in_front:
        return
    raise InvalidCall(
        ErrorEnvelope(
            tool=definition.name,
            message=f"{definition.name} looks after tasks and does not become one.",
            category=ErrorCategory.VALIDATION,
            retryable=False,
            hint="Use the endpoints under /v1/tasks, or call it over MCP.",
        )
    )


def _actor_argument(call: ToolCall) -> str | None:
    actor = call.arguments.get("actor") if call.tool == "call-actor" else None
    return actor if isinstance(actor, str) else None
