"""Arguments of a call: checked against the schema of the tool and the input schema of the Actor; and `waitSecs`.

Many clients time out after 60 seconds, so a call waits 45 by default and then returns how to collect the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_schema.checker import ChecksBusy, SchemaChecker
from outlast.activities.json_schema.coercion import Coerced, coerced, with_kinds_sent
from outlast.activities.secrets import MASK, is_mark, places_of_masks
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import BadRequest, InvalidCall, SchemaChecksBusy, UnfitInput
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.core.actor_names import normalised_actor, split_actor_tool, without_address
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.mode import STANDARD_WAIT, WaitRule
from outlast.workflows.tools.framework.tool import TaskUse, Tool, invalid_arguments
from outlast.workflows.tools.registry import MODES

WAIT_ARGUMENT = "waitSecs"
WAIT_META = "outlast/wait-secs"
DEFAULT_WAIT_SECONDS = STANDARD_WAIT.default_seconds
Violations = tuple[Violation, ...]


@dataclass(frozen=True)
class ArgumentCheck:
    """Checks the arguments of one caller's calls."""

    checker: SchemaChecker
    caller_id: str

    async def of_call(self, tool: Tool, arguments: JsonObject, actor: CalledActor | None = None) -> None:
        """Raise `InvalidCall` with all violations unless the arguments fit the tool and the Actor of `call-actor`."""
        _raise_any(tool, await self._tool_violations(tool, arguments))
        violations = await self._actor_violations(tool, arguments, actor)
        if violations and actor is not None:
            raise UnfitInput(invalid_arguments(tool.name, violations), actor.input_schema or {})

    async def of_edited(self, tool: Tool, arguments: JsonObject, actor: CalledActor | None = None) -> None:
        """Like `of_call`, for arguments with masks: the value behind a mask is known to fit the schema.

        Without a known input schema, only the input as a whole was masked, so a mask inside it is an error.
        """
        if actor is None or actor.input_schema is None:
            _raise_any(tool, _masks_inside(tool, arguments))
        _raise_any(
            tool,
            _unmasked(arguments, await self._tool_violations(tool, arguments))
            or _unmasked(arguments, await self._actor_violations(tool, arguments, actor)),
        )

    async def _tool_violations(self, tool: Tool, arguments: JsonObject) -> Violations:
        if tool.arguments is None:
            return with_kinds_sent(await self._violations(tool.input_schema, dict(arguments)), arguments)
        try:
            tool.parse(arguments)
        except ToolError as error:
            return with_kinds_sent(error.envelope.violations or (), arguments)
        return ()

    async def _actor_violations(self, tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> Violations:
        """Violations of the Actor's input schema by the input of `call-actor`."""
        run_input = arguments.get("input", {})
        schema = actor.input_schema if actor else None
        if tool.actor is not None or schema is None or not isinstance(run_input, dict):
            return ()
        found = with_kinds_sent(await self._violations({"type": "object", **schema}, run_input), run_input)
        return tuple(Violation(path=f"/input{entry.path}", message=entry.message) for entry in found)

    async def _violations(self, schema: JsonObject, value: JsonObject) -> Violations:
        return await checked(self.checker, schema, value, self.caller_id)


def with_plain_actor(tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> JsonObject:
    """The arguments with the Actor as the platform names it: no address, which may hold a token, and no build in it.

    `user/name:build` becomes `callOptions.build`. Raises `InvalidCall` for two different builds.
    """
    written = arguments.get("actor")
    if tool.actor is not None or not tool.calls_actor or not isinstance(written, str):
        return arguments
    plain = without_address(unquoted(written))
    properties = cast(JsonObject, tool.input_schema.get("properties") or {})
    if actor is None or actor.named_build is None or "callOptions" not in properties:
        return {**arguments, "actor": normalised_actor(plain)} if plain != unquoted(written) else arguments
    given = arguments.get("callOptions")
    options = given if isinstance(given, dict) else {}
    if options.get("build") not in (None, "", actor.named_build):
        message = f"{plain} names another build than callOptions.build; name one of them."
        violation = Violation(path="/callOptions/build", message=message)
        raise InvalidCall(invalid_arguments(tool.name, (violation,)))
    return {**arguments, "actor": actor.name, "callOptions": {**options, "build": actor.named_build}}


def invalid_call(tool: str, message: str, hint: str | None = None, violations: Violations | None = None) -> InvalidCall:
    """The error for a call that cannot be accepted."""
    category = ErrorCategory.VALIDATION
    return InvalidCall(ErrorEnvelope.permanent(category, tool, message, hint=hint, violations=violations))


def with_coerced_input(tool: Tool, own: Coerced, actor: CalledActor | None) -> Coerced:
    """The arguments of `call-actor` with an input in the types of the Actor's schema, if that is known."""
    run_input, schema = own.arguments.get("input"), actor.input_schema if actor else None
    if tool.actor is not None or schema is None or not isinstance(run_input, dict):
        return own
    read = coerced(schema, run_input, at="/input")
    return Coerced({**own.arguments, "input": read.arguments}, (*own.changes, *read.changes)) if read.changes else own


async def checked(checker: SchemaChecker, schema: JsonObject, value: JsonObject, caller_id: str) -> Violations:
    """The violations of a schema of the outside world. Raises `SchemaChecksBusy`."""
    try:
        return await checker.violations(schema, value, party=caller_id)
    except ChecksBusy as error:
        message = "The machine is too busy to check the call against the input schema. Send it again in a moment."
        raise SchemaChecksBusy(message) from error


def _raise_any(tool: Tool, violations: Violations) -> None:
    if violations:
        raise InvalidCall(invalid_arguments(tool.name, violations))


def _masks_inside(tool: Tool, arguments: JsonObject) -> Violations:
    """Masks inside the input of an Actor whose schema is not known."""
    run_input = arguments.get("input")
    if not tool.calls_actor or run_input == MASK:
        return ()
    message = "The Actor's input schema is not known: write the value itself."
    return tuple(Violation.at(place, message) for place in sorted(places_of_masks(run_input, ("input",)), key=str))


def _unmasked(arguments: JsonObject, violations: Violations) -> Violations:
    """The violations whose value is neither a mask nor in the mark of a kept part: the original was checked."""
    return tuple(violation for violation in violations if not _stands_for_original(arguments, violation.path))


def _stands_for_original(arguments: JsonObject, pointer: str) -> bool:
    parts = pointer.split("/")
    ancestors = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return _value_at(arguments, pointer) == MASK or any(is_mark(_value_at(arguments, place)) for place in ancestors)


def _value_at(document: JsonValue | Mapping[str, JsonValue], pointer: str) -> JsonValue:
    """The value at a JSON Pointer (RFC 6901); None if there is none."""
    value: object = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = cast(Mapping[str, JsonValue], value).get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast(list[JsonValue], value)):
            value = cast(list[JsonValue], value)[int(name)]
        else:
            return None
    return cast(JsonValue, value)


def waits(definition: Tool, mode: str) -> bool:
    """Return whether `waitSecs` is an argument of the tool: its answer may take long, and its schema lacks it."""
    rule, schema = MODES[mode].wait, cast(dict[str, Any], definition.input_schema)
    is_async = definition.calls_actor and "async" in (definition.executor_kind, MODES[mode].executor.kind)
    if is_async or definition.task_use is TaskUse.NEVER or definition.server is not None:
        return False  # The schemas of MCP servers stay as they are.
    if not rule.of_servers and split_actor_tool(definition.actor or "")[1] is not None:
        return False
    return rule.replaces or WAIT_ARGUMENT not in schema.get("properties", {})


def with_wait_argument(schema: dict[str, Any], max_seconds: int, rule: WaitRule) -> dict[str, Any]:
    """`schema` with the argument `waitSecs`."""
    described: dict[str, Any] = {
        "type": rule.kind,
        "minimum": 0,
        "maximum": rule.max_seconds or max_seconds,
        "default": rule.default_seconds,
        "description": rule.description,
    }
    return {**schema, "properties": {**schema.get("properties", {}), WAIT_ARGUMENT: described}}


def without_wait(definition: Tool, mode: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without `waitSecs`, which callers may copy from the schemas of MCP to other entry points."""
    if WAIT_ARGUMENT not in arguments or not waits(definition, mode):
        return arguments
    return {name: value for name, value in arguments.items() if name != WAIT_ARGUMENT}


def split_wait(
    definition: Tool, mode: str, arguments: Mapping[str, object], meta: Mapping[str, Any], max_seconds: int
) -> tuple[dict[str, object], float]:
    """The arguments without `waitSecs`, and the seconds. Raises `BadRequest` for an invalid number of seconds."""
    rest, rule, has_argument = dict(arguments), MODES[mode].wait, waits(definition, mode)
    given = rest.pop(WAIT_ARGUMENT, None) if has_argument else None
    given = meta.get(WAIT_META) if given is None else given
    if given is None:
        return rest, rule.default_seconds if has_argument or definition.calls_actor else rule.other_seconds
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= max_seconds:
        raise BadRequest(f"{WAIT_ARGUMENT} takes a number of seconds from 0 to {max_seconds}.")
    return rest, float(given)
