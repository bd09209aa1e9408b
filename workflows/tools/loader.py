"""The set of tools that a connection offers: selectors, tools of Actors and companions, by the rules of the mode."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from outlast.workflows.tools.framework.selection import TOOL_ALIASES, LoadedChoice, Payment, Selection
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import (
    MODE_ALIASES,
    companions_of,
    loaded_tools,
    selection_rules,
    tools_of,
    unknown_tool,
)

ActorLoader = Callable[[str], Awaitable[tuple[Tool, ...]]]
"""Function that loads the direct tool of an Actor, or the tools of an MCP server; none if it cannot be loaded."""


@dataclass(frozen=True)
class ToolSet:
    """The tools of one connection by name. Immutable: adding a tool returns a new set."""

    mode: str
    tools: Mapping[str, Tool]
    missing_actors: tuple[str, ...] = field(default=())

    def get(self, name: str) -> Tool:
        """Return the tool with this name or alias. Raises `UnknownTool` that lists the tools of the set."""
        definition = self.tools.get(name) or self.tools.get(TOOL_ALIASES.get(name, ""))
        if definition is None:
            raise unknown_tool(name, tuple(self.tools))
        return definition

    def including(self, *more: Tool) -> "ToolSet":
        """Return this set with the tools of `more` that it does not have."""
        added = {definition.name: definition for definition in more if definition.name not in self.tools}
        return ToolSet(self.mode, MappingProxyType({**self.tools, **added}), self.missing_actors)


def base_tools(mode: str) -> ToolSet:
    """Return all tools of `mode` except direct Actor tools. Raises `UnknownTool` for an unknown mode."""
    return tool_set(mode, tools_of(mode))


def normalised_mode(mode: str) -> str:
    """Return the name of a mode for an older name of it (`apps`, `true`)."""
    return MODE_ALIASES.get(mode, mode)


async def load_tools(
    selection: Selection, load_actor: ActorLoader, available: Mapping[str, Tool] | None = None
) -> ToolSet:
    """Return the tools of `selection`, which are among `available` (default: all of the mode) or tools of Actors.

    Raises `UnknownTool` for an unknown mode.
    """
    available = base_tools(selection.mode).tools if available is None else available
    rules = selection_rules(selection.mode)
    choice = rules.choose(selection, available)
    loaded_by_default = () if selection.selectors is not None else loaded_tools()
    own = (available[name] for name in loaded_by_default if name in available and available[name] not in choice.tools)
    chosen = _payable((*choice.tools, *own), selection.payment)
    loaded = {actor: _payable(await load_actor(actor), selection.payment) for actor in choice.actors}
    actor_tools = tuple(definition for definitions in loaded.values() for definition in definitions)
    companions = tuple(one for one in companions_of(selection.mode) if one.name in available)
    tools = rules.arrange(selection, LoadedChoice(chosen, actor_tools, available, companions))
    if selection.payment is not None:
        tools = [selection.payment.applied_to(definition) for definition in tools]
    missing = tuple(actor for actor, definitions in loaded.items() if not definitions)
    return tool_set(selection.mode, tools, missing)


def _payable(tools: tuple[Tool, ...], payment: Payment | None) -> tuple[Tool, ...]:
    """Return the tools that the connection's payment can pay, or all if the account pays."""
    return tuple(definition for definition in tools if payment is None or payment.can_pay(definition))


def tool_set(mode: str, tools: Iterable[Tool], missing: tuple[str, ...] = ()) -> ToolSet:
    """Return a set of `tools`, with the first tool of each name."""
    by_name: dict[str, Tool] = {}
    for definition in tools:
        by_name.setdefault(definition.name, definition)
    return ToolSet(mode, MappingProxyType(by_name), missing)
