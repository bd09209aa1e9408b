"""Who may call what: the operator's rules (the policy file, then OUTLAST_PERMISSIONS), decided for each call.

A rule is `CALLER:TOOL=ACTION`. Caller and tool may have `*` in them; a caller's own id may have colons, a tool's name
has none. The first rule that fits decides; for a call that fits none, the policy's `unmatched` does. A call of an Actor
goes by more than one name (`call-actor`, and the Actor's own tool): each has to be allowed, and the strictest decision
counts.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import cast, get_args

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.access.policy.contracts import Action, PermissionEntry, Policy
from outlast.workflows.contracts.tool_calls import PermissionRuling
from outlast.workflows.tools.core.actor_names import actor_tool_name, proxied_tool_name, split_actor_tool
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.loader import base_tools
from outlast.workflows.tools.registry import MODES, TOOL_ALIASES

_STRICTNESS: tuple[str, ...] = get_args(Action)


@dataclass(frozen=True)
class Rule:
    """One rule, and the text that it was read from."""

    caller: str
    tool: str
    action: Action
    text: str

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Raises `ValueError` that says how a rule reads."""
        call, equals, action = text.rpartition("=")
        caller, colon, tool = call.rpartition(":")
        if not equals or not colon or not caller or not tool or action not in _STRICTNESS:
            raise ValueError(
                f"{text!r} is not a permission: write CALLER:TOOL=allow, =ask or =deny, as in `key:ci:call-actor=ask`"
            )
        return cls(caller, tool, cast(Action, action), text)

    @classmethod
    def of(cls, entry: PermissionEntry) -> "Rule":
        """A rule of a policy file."""
        return cls(entry.caller, entry.tool, entry.action, f"{entry.caller}:{entry.tool}={entry.action}")

    def fits_caller(self, caller: str) -> bool:
        """Whether the rule is about this caller, whatever the tool."""
        return fnmatchcase(caller, self.caller)

    def fits(self, caller: str, tool: str) -> bool:
        """Whether the rule is about this caller and tool, in any case of letters and however an Actor is written."""
        return fnmatchcase(caller, self.caller) and fnmatchcase(tool.casefold(), self.pattern.casefold())

    @property
    def pattern(self) -> str:
        """The rule's tool under the name that tools have: aliases and `user/name`, `user~name` are resolved."""
        written = self.tool.strip()
        if "/" not in written and "~" not in written:
            return TOOL_ALIASES.get(written.casefold(), written)
        actor, mcp_tool = split_actor_tool(written)
        return proxied_tool_name(actor, mcp_tool) if mcp_tool and "*" not in mcp_tool else actor_tool_name(actor)


@dataclass(frozen=True)
class PermissionRules:
    """The rules, in their order."""

    rules: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.rules)

    @classmethod
    def parse(cls, text: str) -> "PermissionRules":
        """The comma-separated rules in `text`. Raises `ValueError` for what is none."""
        return cls(tuple(Rule.parse(part.strip()) for part in text.split(",") if part.strip()))

    @classmethod
    def of(cls, policy: Policy) -> "PermissionRules":
        """The rules of a policy; what it says of calls that no rule is about is the last of them."""
        last = (
            () if policy.unmatched == "allow" else (Rule("*", "*", policy.unmatched, f"unmatched={policy.unmatched}"),)
        )
        return cls((*(Rule.of(entry) for entry in policy.rules), *last))

    def ruling_of_call(self, caller: str, tool: Tool, actor: str | None) -> PermissionRuling | None:
        """What the rules say of a call of `tool` that runs `actor`; None when no rule is about it."""
        return self.ruling(caller, names_of(tool, actor)) if self.rules else None

    def ruling(self, caller: str, names: Iterable[str]) -> PermissionRuling | None:
        """What the rules say of a call that goes by `names`; None when none is about it."""
        found = [rule for name in names if (rule := self._first(caller, name)) is not None]
        if not found:
            return None
        strictest = max(found, key=lambda rule: _STRICTNESS.index(rule.action))
        return PermissionRuling(action=strictest.action, rule=strictest.text)

    def _first(self, caller: str, tool: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.fits(caller, tool)), None)


def forbidden(tool: str, caller: str, rule: str) -> ErrorEnvelope:
    """The envelope for a call that the operator's rules forbid."""
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        tool,
        f"{caller} may not call {tool}: the operator's permissions deny it ({rule}).",
        hint="Do not call it again; use another tool, or ask the operator.",
    )


def names_of(definition: Tool, actor: str | None) -> tuple[str, ...]:
    """Every name by which rules may mean the call: the tool's own, and those of the Actor that it runs."""
    if actor is None:
        return (definition.name,)
    return tuple(dict.fromkeys((definition.name, *actor_names(actor))))


def actor_names(actor: str) -> tuple[str, ...]:
    """The names of the tools that run `actor` (`user/name`, or `user/name:tool`)."""
    full_name, mcp_tool = split_actor_tool(actor)
    proxied = (proxied_tool_name(full_name, mcp_tool),) if mcp_tool else ()
    return (actor_tool_name(full_name), *proxied)


def idle_rules(rules: PermissionRules) -> list[str]:
    """One line for each rule whose tool is the name of none: misspelt, or an Actor's id."""
    known = {tool.name for mode in MODES for tool in base_tools(mode).tools.values()}
    found: list[str] = []
    for rule in rules.rules:
        if "*" in rule.pattern or "--" in rule.pattern or rule.pattern.casefold() in known:
            continue
        near = difflib.get_close_matches(rule.pattern, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "write an Actor as `user/name`, not by its id."
        found.append(f"{rule.text}: there is no tool {rule.tool!r}; {hint}")
    return found
