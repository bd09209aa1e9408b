"""The operator's rules for calls that a model makes inside a turn. Pure; the front door carries the rules in."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.permissions import PermissionRuling
from outlast.workflows.contracts.turns import CarriedRule, TurnTool
from outlast.workflows.tools.core.actor_names import (
    actor_tool_name,
    normalised_actor,
    proxied_tool_name,
    split_actor_tool,
)
from outlast.workflows.tools.framework.places import values_at


def ruling_of(
    rules: Sequence[CarriedRule], tool: str, actor: str | None, planned: Sequence[str] = ()
) -> PermissionRuling | None:
    """The ruling on a call of `tool` that runs `actor`, and has the Actors `planned` run later on.

    It is the strictest of all names of the call; None when no rule matches.
    """
    names = (*_names(tool, actor), *(name for later in planned for name in _names(tool, later)))
    found = [rule for name in dict.fromkeys(names) if (rule := _first(rules, name)) is not None]
    return PermissionRuling.strictest(found, normalised_actor(actor) if actor else None)


def nameless_actor(rules: Sequence[CarriedRule], tool: str, actor: str | None) -> ErrorEnvelope | None:
    """The error for an Actor given by its id where rules name Actors: an id must not evade a rule on the name."""
    if not rules or actor is None or "/" in normalised_actor(split_actor_tool(actor)[0]):
        return None
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"{actor!r} is no full name of an Actor; this server's permissions go by names.",
        hint="Call again with the Actor's full name, `user/name`.",
    )


def planned_actors(tool: TurnTool, arguments: JsonObject) -> tuple[str, ...]:
    """The Actors that a call has run later on, as they were named."""
    return tuple(str(actor) for place in tool.planned_actors for actor in values_at(arguments, place))


def nameless_plan(rules: Sequence[CarriedRule], tool: TurnTool, arguments: JsonObject) -> ErrorEnvelope | None:
    """The error for what is run later on, or by a saved task, where rules name Actors and the call does not."""
    if rules and any(True for place in tool.planned_tasks for _ in values_at(arguments, place)):
        return ErrorEnvelope.permanent(
            ErrorCategory.PERMISSION,
            tool.name,
            "A saved task does not say which Actor it runs, and this server's permissions go by Actors.",
            hint="Use the Actor itself, by its full name `user/name`.",
        )
    found = (nameless_actor(rules, tool.name, actor) for actor in planned_actors(tool, arguments))
    return next((error for error in found if error is not None), None)


def _names(tool: str, actor: str | None) -> tuple[str, ...]:
    if actor is None:
        return (tool,)
    name, mcp_tool = split_actor_tool(actor)
    full_name = normalised_actor(name)
    proxied = (proxied_tool_name(full_name, mcp_tool),) if mcp_tool else ()
    return (tool, actor_tool_name(full_name), *proxied)


def _first(rules: Sequence[CarriedRule], name: str) -> CarriedRule | None:
    """The first rule that matches `name`, in any case of letters: the platform accepts any."""
    return next((rule for rule in rules if fnmatchcase(name.casefold(), rule.tool.casefold())), None)
