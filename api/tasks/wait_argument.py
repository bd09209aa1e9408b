"""How long a call waits for its answer: an argument of the front door that no workflow sees.

Many clients time out after 60 seconds, so a call waits 45 and then says how to collect the answer. `waitSecs` changes
that; it is in the schema of tools whose calls may take longer. If an Actor's own input has a field of that name, the
field is the Actor's; `_meta` sets the wait for every tool. A mode may have a rule of its own.
"""

from collections.abc import Mapping
from typing import Any

from outlast.api.errors import BadRequest
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.mode import STANDARD_WAIT, WaitRule
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.registry import MODES

WAIT_ARGUMENT = "waitSecs"
WAIT_META = "outlast/wait-secs"
DEFAULT_WAIT_SECONDS = STANDARD_WAIT.default_seconds

JsonObject = dict[str, Any]


def waits(definition: Tool, mode: str) -> bool:
    """Whether `waitSecs` is an argument of the tool: its answer may take long, and its schema has no such field."""
    if definition.calls_actor and "async" in (definition.executor_kind, MODES[mode].executor.kind):
        return False
    if definition.task_use is TaskUse.NEVER:
        return False
    if not MODES[mode].wait.of_servers and split_actor_tool(definition.actor or "")[1] is not None:
        return False
    if MODES[mode].wait.replaces:
        return True
    schema: JsonObject = definition.input_schema
    return WAIT_ARGUMENT not in schema.get("properties", {})


def with_wait_argument(schema: JsonObject, max_seconds: int, rule: WaitRule) -> JsonObject:
    """`schema` with the argument `waitSecs`."""
    described: JsonObject = {
        "type": rule.kind,
        "minimum": 0,
        "maximum": rule.max_seconds or max_seconds,
        "default": rule.default_seconds,
        "description": rule.description,
    }
    return {**schema, "properties": {**schema.get("properties", {}), WAIT_ARGUMENT: described}}


def without_wait(definition: Tool, mode: str, arguments: JsonObject) -> JsonObject:
    """The arguments without `waitSecs`, for front doors that set the wait elsewhere.

    Callers may send it because they copy the schemas that MCP lists.
    """
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
