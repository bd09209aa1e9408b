"""Outlast's own tools, which an installation may offer, leave out, or offer in part (OUTLAST_BUILTIN_TOOLS)."""

from dataclasses import dataclass
from typing import Self

from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.standard_selection import companion_names
from outlast.workflows.tools.framework.selection import TOOL_ALIASES
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.loader import ToolSet, base_tools, tool_set
from outlast.workflows.tools.registry import companions_of, own_tools

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

    def offered(self, mode: str) -> ToolSet:
        """Return the tools of `mode` that are offered, in their order, with the tools that collect their results.

        Raises `UnknownTool` for an unknown mode.
        """
        every = base_tools(mode)
        if self.names is None:
            return every
        chosen, own = self.names, own_tools(mode)
        kept = [one for one in every.tools.values() if {one.name, one.category.value} & chosen or one.name in own]
        companions = companions_of(mode) if any(one.name not in own for one in kept) else ()
        names = {one.name for one in (*kept, *companions)}.union(companion_names([*kept, *companions]))
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
