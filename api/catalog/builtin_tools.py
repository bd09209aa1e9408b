"""Outlast's own tools, which an installation may offer, leave out, or offer in part (OUTLAST_BUILTIN_TOOLS)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from outlast.activities.contracts import Caller, ErrorEnvelope
from outlast.api.access.permissions import CallName, PermissionRules
from outlast.api.access.policy.source import PolicySource
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.standard_selection import companion_names
from outlast.workflows.tools.framework.selection import TOOL_ALIASES
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import MODES, ToolSet, base_tools, companions_of, own_tools, tool_set

ON, OFF = "on", "off"


@dataclass(frozen=True)
class BuiltinTools:
    """The tools, categories and Actors that are offered; `names` None for all. The operator's own tools always are."""

    names: frozenset[str] | None = None

    @classmethod
    def of(cls, setting: str) -> Self:
        """Read the setting: `on`, `off`, or names, comma-separated."""
        names = [name.strip() for name in setting.split(",") if name.strip()]
        if names in ([], [ON]):
            return cls()
        return cls(frozenset(TOOL_ALIASES.get(name, normalised_actor(name)) for name in names if names != [OFF]))

    def offered(self, mode: str, beside: Iterable[Tool] = ()) -> ToolSet:
        """Return the tools of `mode` that are offered, in their order, with the tools that collect their results and
        those of the tools `beside` them.

        Raises `UnknownTool` for an unknown mode.
        """
        every = base_tools(mode)
        if self.names is None:
            return every
        chosen, own = self.names, own_tools(mode)
        kept = [one for one in every.tools.values() if {one.name, one.category.value} & chosen or one.name in own]
        companions = companions_of(mode) if any(one.name not in own for one in kept) else ()
        names = {one.name for one in (*kept, *companions)}.union(companion_names([*kept, *companions, *beside]))
        return tool_set(mode, (one for one in every.tools.values() if one.name in names))

    @property
    def has_actors(self) -> bool:
        """True if some Actors may be offered as tools."""
        return self.names is None or Category.ACTORS in self.names or any("/" in name for name in self.names)

    def has_actor(self, actor: str) -> bool:
        """Return whether `actor` (`user/name`) may be offered as a tool."""
        return self.names is None or Category.ACTORS in self.names or actor in self.names


EVERY_BUILTIN_TOOL = BuiltinTools()
OWN_TOOLS = BuiltinTools(frozenset())


@dataclass(frozen=True)
class AbsentTools:
    """Explains errors about unknown tools. Callers are told nothing about tools that the policy denies them."""

    builtin: BuiltinTools
    policy: PolicySource

    def explained(
        self, unknown: ErrorEnvelope, name: str, mode: str, caller: Caller, *, by_connection: bool = False
    ) -> ErrorEnvelope:
        """Return the error with the reason why `name` is not offered, if it exists.

        `by_connection` is True if connections select their tools; otherwise all tools of the mode are offered.
        """
        name = TOOL_ALIASES.get(name, name)
        if mode not in MODES:
            return unknown
        found = base_tools(mode).tools.get(name)
        called = CallName(name, tags=found.tags if found is not None else ())
        ruling = PermissionRules.of(self.policy.current).ruling(caller.id, (called,))
        if ruling is not None and ruling.action == "deny":
            return unknown
        reason = self._reason(name, mode, by_connection=by_connection)
        if reason is None:
            return unknown
        hint = "Until then, use one of the available tools."
        return unknown.model_copy(update={"message": reason, "hint": hint})

    def _reason(self, name: str, mode: str, *, by_connection: bool) -> str | None:
        if by_connection and name in self.builtin.offered(mode).tools:
            how = f"add `?tools={name}` to the address, or `--tools {name}` to `outlast mcp`"
            return f"This connection has not selected the tool {name!r}. To select it, {how}, beside the other tools."
        is_of_actor = "--" in name
        if name in base_tools(mode).tools or (is_of_actor and not self.builtin.has_actors):
            return f"This server does not offer {name!r}: its operator has not selected it in OUTLAST_BUILTIN_TOOLS."
        modes = [other for other in MODES if name in self.builtin.offered(other).tools]
        if modes:
            return f"The mode {mode!r} has no tool {name!r}. To get it, connect with `?mode={modes[0]}`."
        if by_connection and is_of_actor:
            how = "add `?actors=USER/NAME` to the address, or `--actors USER/NAME` to `outlast mcp`"
            return f"This connection has no tool {name!r}. To select the tool of an Actor, {how}."
        return None
