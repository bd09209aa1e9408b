"""From selectors to the set of tools that a connection offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workflows.tools.registry import tools_of, unknown_tool
from workflows.tools.tool import Tool


@dataclass(frozen=True)
class ToolSet:
    """The tools of one connection, by name. Never changes; adding a tool gives a new set."""

    mode: str
    tools: Mapping[str, Tool]

    def get(self, name: str) -> Tool:
        """The tool called `name`. Raises `UnknownTool` that says which tools there are."""
        if name not in self.tools:
            raise unknown_tool(name, tuple(self.tools))
        return self.tools[name]

    def including(self, *more: Tool) -> "ToolSet":
        """This set and `more`; a tool that is already there is not added again."""
        added = {definition.name: definition for definition in more if definition.name not in self.tools}
        return ToolSet(self.mode, MappingProxyType({**self.tools, **added}))


def base_tools(mode: str) -> ToolSet:
    """All tools of `mode` but direct Actor tools. Raises `UnknownTool` for an unknown mode."""
    return ToolSet(mode, MappingProxyType({definition.name: definition for definition in tools_of(mode)}))
