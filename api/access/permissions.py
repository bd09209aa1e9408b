"""Permissions: the operator's rules (the policy file, then OUTLAST_PERMISSIONS), applied to each call.

A rule is `CALLER:TOOL=ACTION`, with `*` for any part. The first matching rule decides, otherwise `unmatched` of the
policy. A call of an Actor has several names (`call-actor`, the Actor's own tool): the strictest decision counts. An
Actor's id is equivalent to its name. `tag:NAME` in place of a tool means the tools with this tag.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast, get_args

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.spending.contracts import SpendingCaps
from outlast.api.access.policy.contracts import Action, PermissionEntry, Policy
from outlast.contracts.operations import PolicyExplanation
from outlast.workflows.contracts.tool_calls import PermissionRuling
from outlast.workflows.tools.core.actor_names import actor_tool_name, proxied_tool_name, split_actor_tool
from outlast.workflows.tools.framework.selection import TAG, TOOL_ALIASES

if TYPE_CHECKING:  # the tools take half a second to load, which a check of the settings need not wait for
    from outlast.workflows.tools.framework.tool import Tool
import difflib

from outlast.suggestions import suggested
from outlast.workflows.tools.core.server_tools import SEPARATOR
from outlast.workflows.tools.registry import MODES, base_tools, loaded_tools

_STRICTNESS: tuple[str, ...] = get_args(Action)
_BY_ID = re.compile(r"([A-Za-z0-9]{17})(?::[^*]+)?")
"""An Actor's id, alone or with a tool of the Actor that is an MCP server."""
_CALLER_AND_TAG = re.compile(r"(.*[:*].*|local):tag")
"""The part of a rule before a tag. `key:tag` is a caller: the key called `tag`."""


@dataclass(frozen=True)
class CallName:
    """A name by which rules may mean a call: that of a tool, and how it reads with the Actor's id."""

    tool: str
    by_id: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One rule, and the text that it was read from."""

    caller: str
    tool: str
    action: Action
    text: str
    approver: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Parse a rule. Raises `ValueError` with the syntax."""
        call, equals, action = text.rpartition("=")
        caller, colon, tool = call.rpartition(":")
        by_tag = _CALLER_AND_TAG.fullmatch(caller)
        caller, tool = (by_tag[1], TAG + tool) if by_tag else (caller, tool)
        if not equals or not colon or not caller or not tool or action not in _STRICTNESS:
            raise ValueError(
                f"{text!r} is not a permission: write CALLER:TOOL=allow, =ask or =deny, as in `key:ci:call-actor=ask`"
            )
        return cls(caller, tool, cast(Action, action), text)

    @classmethod
    def of(cls, entry: PermissionEntry) -> "Rule":
        """Return a rule of a policy file."""
        text = f"{entry.caller}:{entry.tool}={entry.action}"
        return cls(entry.caller, entry.tool, entry.action, text, entry.approver)

    def fits_caller(self, caller: str) -> bool:
        """Match the caller alone."""
        return fnmatchcase(caller, self.caller)

    def fits(self, caller: str, name: "CallName") -> bool:
        """Match caller and tool, ignoring case and the notation of Actors."""
        if self.tag is not None:
            tag = self.tag.casefold()
            return self.fits_caller(caller) and any(fnmatchcase(one.casefold(), tag) for one in name.tags)
        return self.fits_caller(caller) and (
            fnmatchcase(name.tool.casefold(), self.pattern.casefold()) or self.pattern == name.by_id
        )

    @property
    def tag(self) -> str | None:
        """The tag of the tools that the rule is about; None for a rule about tools by name."""
        written = self.tool.strip()
        return written[len(TAG) :] if written.startswith(TAG) else None

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
        return bool(self.rules)

    @classmethod
    def parse(cls, text: str) -> "PermissionRules":
        """Parse comma-separated rules. Raises `ValueError`."""
        return cls(tuple(Rule.parse(part.strip()) for part in text.split(",") if part.strip()))

    @classmethod
    def of(cls, policy: Policy) -> "PermissionRules":
        """Return the rules of a policy, with its default for unmatched calls as the last rule."""
        default = Rule("*", "*", policy.unmatched, f"unmatched={policy.unmatched}")
        return cls((*map(Rule.of, policy.rules), *(() if policy.unmatched == "allow" else (default,))))

    def ruling_of_call(
        self, caller: str, tool: "Tool", actor: str | None, actor_id: str | None = None
    ) -> PermissionRuling | None:
        """Return the ruling on a call of `tool` that runs `actor`; None when no rule is about it."""
        return self.ruling(caller, names_of(tool, actor, actor_id), actor) if self.rules else None

    def ruling_of_plan(
        self, caller: str, tool: "Tool", actors: Sequence[tuple[str, str | None]]
    ) -> PermissionRuling | None:
        """Return the ruling on a call of `tool` that has Actors (full name, id) run later on, or a task of one now."""
        planned = [name for actor, actor_id in actors for name in actor_names(actor, actor_id)]
        runs_now = actors[0][0] if tool.calls_actor and actors else None
        return self.ruling(caller, (*names_of(tool, None), *planned), runs_now) if self.rules else None

    def ruling(self, caller: str, names: Iterable[CallName], actor: str | None = None) -> PermissionRuling | None:
        """Return the ruling on a call with these `names`; None if no rule matches."""
        first = (next((rule for rule in self.rules if rule.fits(caller, name)), None) for name in names)
        return PermissionRuling.strictest([rule for rule in first if rule is not None], actor)


def forbidden(tool: str, caller: str, rule: str) -> ErrorEnvelope:
    """Return the envelope for a call that the operator's rules forbid."""
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        tool,
        f"{caller} may not call {tool}: the operator's permissions deny it ({rule}).",
        hint="Do not call it again; use another tool, or ask the operator.",
    )


def names_of(definition: "Tool", actor: str | None, actor_id: str | None = None) -> tuple[CallName, ...]:
    """Every name by which rules may mean the call: the tool's own, and those of the Actor that it runs."""
    names = actor_names(actor, actor_id) if actor is not None else ()
    written = (definition.name, definition.twin_of or definition.name)
    own = dict.fromkeys(name for each in written for name in (each, TOOL_ALIASES.get(each, each)))
    return (
        *(CallName(name, tags=definition.tags) for name in own if name not in {each.tool for each in names}),
        *names,
    )


def actor_names(actor: str, actor_id: str | None = None) -> tuple[CallName, ...]:
    """Return the names of the tools that run `actor` (`user/name`, or `user/name:tool`)."""
    full_name, mcp_tool = split_actor_tool(actor)
    direct = CallName(actor_tool_name(full_name), actor_id)
    if not mcp_tool:
        return (direct,)
    return (direct, CallName(proxied_tool_name(full_name, mcp_tool), f"{actor_id}:{mcp_tool}" if actor_id else None))


def ids_in(rules: PermissionRules) -> tuple[str, ...]:
    """Return the ids by which rules mean Actors."""
    return tuple(dict.fromkeys(found[1] for rule in rules.rules if (found := _BY_ID.fullmatch(rule.pattern))))


def patterns_of(rule: Rule, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the patterns of tool names that a rule is about: names of tools for a tag, and of Actors for their ids."""
    if rule.tag is None:
        return (by_name(rule.pattern, names),)
    tools = (tool for mode in MODES for tool in base_tools(mode).tools.values())
    return tuple(dict.fromkeys(one.name for one in tools if rule.fits(rule.caller, CallName(one.name, tags=one.tags))))


def by_name(pattern: str, names: Mapping[str, str]) -> str:
    """Replace the Actor's id in a rule's `pattern` with its name, if `names` has it."""
    found = _BY_ID.fullmatch(pattern)
    if found is None or (full_name := names.get(found[1])) is None:
        return pattern
    mcp_tool = pattern.partition(":")[2]
    return proxied_tool_name(full_name, mcp_tool) if mcp_tool else actor_tool_name(full_name)


def explained(policy: Policy, caller: str, tool: str, actor: str | None) -> PolicyExplanation:
    """Explain the decision of `policy` about a call of `tool`, or of `tag:NAME` for tools with a tag."""
    asked = Rule("*", tool, "allow", "")
    tags = () if asked.tag is None else (asked.tag,)
    names = (CallName(asked.pattern, tags=tags), *(actor_names(actor) if actor else ()))
    ruling = PermissionRules.of(policy).ruling(caller, names)
    approvers = ruling.approvers if ruling is not None else ()
    others = (other for other in policy.callers if other != caller)
    return PolicyExplanation(
        caller=caller,
        tool=tool,
        actor=actor,
        action=ruling.action if ruling is not None else "allow",
        rule=ruling.rule if ruling is not None else None,
        names=tuple(dict.fromkeys(name.tool for name in names)),
        approvers=approvers,
        held_by=tuple(other for other in others if approvers and policy.of(other).roles.issuperset(approvers)),
        spending=SpendingCaps.model_validate(policy.of(caller).spending.model_dump()),
    )


def approver_words(roles: Iterable[str]) -> str:
    """Return the approvers, in words."""
    named = " and ".join(f"`{role}`" for role in roles)
    return f"another caller with the role {named}"


def idle_rules(rules: PermissionRules) -> list[str]:
    """Return a line for each rule whose tool does not exist."""
    tools = [tool for mode in MODES for tool in base_tools(mode).tools.values()]
    known, tags = {tool.name for tool in tools}, {tag for tool in tools for tag in tool.tags}
    found: list[str] = []
    for rule in rules.rules:
        if rule.tag is not None:
            # Commands do not load the tools, and no tool of Outlast has a tag.
            if loaded_tools() and "*" not in rule.tag and rule.tag.casefold() not in {tag.casefold() for tag in tags}:
                found.append(f"{rule.text}: no tool has the tag {rule.tag!r}; tags are: {suggested(tags) or 'none'}.")
            continue
        pattern = rule.pattern
        is_by_id = bool(ids_in(PermissionRules((rule,))))
        if "*" in pattern or "--" in pattern or SEPARATOR in pattern or pattern.casefold() in known or is_by_id:
            continue
        near = difflib.get_close_matches(pattern, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "write an Actor as `user/name`, or by its id."
        found.append(f"{rule.text}: there is no tool {rule.tool!r}; {hint}")
    return found


def idle_roles(policy: Policy) -> list[str]:
    """Return a line for each role that rules require and no caller has."""
    held = policy.defaults.roles.union(*(policy.of(caller).roles for caller in policy.callers))
    demanded = dict.fromkeys(entry.approver for entry in policy.rules if entry.approver)
    return [
        f"no caller has the role {role!r}: calls that need its approval wait until they time out"
        for role in demanded
        if role not in held
    ]
