"""From selectors to the set of tools that a connection offers.

Resolves selectors, loads Actor tools, adds companion tools and removes duplicates.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from outlast.workflows.tools.core.payments import PaymentScheme
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import MODE_ALIASES, TOOL_ALIASES, companions_of, tools_of, unknown_tool

DEFAULT_SELECTORS = (Category.ACTORS.value, Category.DOCS.value)
RUN_COMPANIONS = ("get-actor-run", "get-actor-output")
"""Offered whenever an Actor can be called."""
TASK_COMPANIONS = ("get-task", "list-tasks", "cancel-task", "answer-task")
"""Offered whenever a call may outlast its connection: clients without tasks get the result with these."""
OUTPUT_COMPANIONS = ("restore-tool-output",)
"""Offered whenever an answer may be stored."""

ActorLoader = Callable[[str], Awaitable[tuple[Tool, ...]]]
"""Makes the direct tool of an Actor, or the tools of an Actor that is an MCP server; none when it cannot be loaded."""


@dataclass(frozen=True)
class Selection:
    """The tools that a connection asks for. `selectors` None means `default_selectors` and `default_actors`."""

    mode: str = "default"
    selectors: tuple[str, ...] | None = None
    actors: tuple[str, ...] = ()
    default_selectors: tuple[str, ...] = DEFAULT_SELECTORS
    default_actors: tuple[str, ...] = ()
    payment: PaymentScheme | None = None


@dataclass(frozen=True)
class ToolSet:
    """The tools of one connection, by name. Never changes; adding a tool gives a new set."""

    mode: str
    tools: Mapping[str, Tool]
    missing_actors: tuple[str, ...] = field(default=())

    def get(self, name: str) -> Tool:
        """The tool called `name`, or its alias. Raises `UnknownTool` that lists the tools of the set."""
        definition = self.tools.get(name) or self.tools.get(TOOL_ALIASES.get(name, ""))
        if definition is None:
            raise unknown_tool(name, tuple(self.tools))
        return definition

    def including(self, *more: Tool) -> "ToolSet":
        """This set and `more`; a tool that is already there is not added again."""
        added = {definition.name: definition for definition in more if definition.name not in self.tools}
        return ToolSet(self.mode, MappingProxyType({**self.tools, **added}), self.missing_actors)


def base_tools(mode: str) -> ToolSet:
    """All tools of `mode` but direct Actor tools. Raises `UnknownTool` for an unknown mode."""
    return tool_set(mode, tools_of(mode))


def normalised_mode(mode: str) -> str:
    """`apps` and `true` are older names of the UI mode."""
    return MODE_ALIASES.get(mode, mode)


async def load_tools(selection: Selection, load_actor: ActorLoader) -> ToolSet:
    """The tools that `selection` asks for. Raises `UnknownTool` for an unknown mode."""
    available = base_tools(selection.mode)
    selected, actors = _resolve(selection, available)
    loaded = {actor: _payable(await load_actor(actor), selection.payment) for actor in actors}
    tools = [*selected, *(definition for definitions in loaded.values() for definition in definitions)]
    tools += companions_of(selection.mode)
    tools += _companions(tools, available)
    if selection.payment is not None:
        tools = [selection.payment.applied_to(definition) for definition in tools]
    missing = tuple(actor for actor, definitions in loaded.items() if not definitions)
    return tool_set(selection.mode, tools, missing)


def _resolve(selection: Selection, available: ToolSet) -> tuple[list[Tool], tuple[str, ...]]:
    """The tools and Actors that the selectors name. A selector that is neither a category nor a tool is an Actor."""
    default = selection.selectors is None
    selectors = selection.default_selectors if selection.selectors is None else selection.selectors
    tools: list[Tool] = []
    actors: list[str] = list(selection.default_actors) if default else []
    for selector in selectors:
        name = TOOL_ALIASES.get(selector, selector)
        if name in set(Category):
            tools += [definition for definition in available.tools.values() if definition.category == name]
        elif name in available.tools:
            tools.append(available.tools[name])
        else:
            actors.append(name)
    return tools, tuple(dict.fromkeys([*actors, *selection.actors]))


def _payable(tools: tuple[Tool, ...], payment: PaymentScheme | None) -> tuple[Tool, ...]:
    """Those that the connection's payment can pay, or all when the account pays."""
    return tuple(definition for definition in tools if payment is None or payment.can_pay(definition))


def _companions(tools: list[Tool], available: ToolSet) -> list[Tool]:
    names: list[str] = []
    if any(definition.calls_actor for definition in tools):
        names += [*RUN_COMPANIONS, *TASK_COMPANIONS]
    if any(definition.may_store for definition in tools):
        names += OUTPUT_COMPANIONS
    return [available.tools[name] for name in names if name in available.tools]


def tool_set(mode: str, tools: Iterable[Tool], missing: tuple[str, ...] = ()) -> ToolSet:
    """A set of `tools`; of tools with the same name the first counts."""
    by_name: dict[str, Tool] = {}
    for definition in tools:
        by_name.setdefault(definition.name, definition)
    return ToolSet(mode, MappingProxyType(by_name), missing)
