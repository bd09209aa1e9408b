"""The operator's rules for calls that a model makes inside a turn. Pure; the front door carries the rules in."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.permissions import PermissionRuling
from outlast.workflows.contracts.turns import CarriedRule
from outlast.workflows.tools.core.actor_names import (
    actor_tool_name,
    normalised_actor,
    proxied_tool_name,
    split_actor_tool,
)


def ruling_of(rules: Sequence[CarriedRule], tool: str, actor: str | None) -> PermissionRuling | None:
    """The ruling on a call of `tool` that runs `actor`: the strictest of all its names; None when no rule matches."""
    found = [rule for name in _names(tool, actor) if (rule := _first(rules, name)) is not None]
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
