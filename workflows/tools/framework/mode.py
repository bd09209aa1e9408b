"""`Mode`, a way of presenting tools to one kind of client, and how long entry points wait for answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from pydantic import JsonValue

from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.frozen_json import FrozenObject
from outlast.workflows.tools.framework.selection import SelectionRules
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class WaitRule:
    """The wait for tools whose calls may take long. The argument is the front door's: no workflow sees it."""

    default_seconds: float = 45
    max_seconds: int | None = None
    """The longest wait that the argument may ask for; None: the server's own limit."""
    kind: Literal["number", "integer"] = "number"
    description: str = "Seconds to wait for the result. The call goes on when they are over: collect it with get-task."
    replaces: bool = False
    """Whether it takes the place of a field of that name in an Actor's own input; else such a tool has no argument."""
    of_servers: bool = True
    """Whether tools of Actors that are MCP servers have the argument; else their schemas are those of the servers."""
    other_seconds: float = 45
    """Wait for other tools, whose calls take seconds."""


STANDARD_WAIT = WaitRule()


@dataclass(frozen=True)
class Instruction:
    """A part of the instructions for models. It is given only where all of `tools`, which it names, are offered."""

    text: str
    tools: tuple[str, ...] = ()


class ActorToolMaker(Protocol):
    """Defines the direct tool of a single Actor. `schema` is the Actor's own input schema.

    `picture_url` and `default_memory_mbytes` are known where the tool is listed and admitted, and not to its workflow.
    """

    def __call__(
        self,
        executor: ActorExecutor,
        actor: str,
        *,
        title: str,
        description: str,
        schema: dict[str, JsonValue],
        picture_url: str | None = None,
        default_memory_mbytes: int | None = None,
    ) -> Tool:
        """The definition."""
        ...


@dataclass(frozen=True)
class Mode:
    """One way of presenting tools. A name belongs to the same category in every mode.

    Raises `ValueError` for two tools of the same name.
    """

    name: str
    executor: ActorExecutor
    tools: tuple[Tool, ...]
    """The mode's own tools. One with the name of a tool common to all modes replaces it in this mode."""
    instructions: tuple[Instruction, ...] = ()
    common_meta: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, Mapping[str, JsonValue]])
    """`_meta` that this mode adds to tools which are otherwise the same in every mode, by the tool's name."""
    actor_tool_meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """`_meta` of the tools of single Actors."""
    actor_tool_purpose: str = "This tool calls the Actor {actor} and returns what it produced."
    """First sentence of the description of a single Actor's tool; `{actor}` stands for the Actor's name."""
    shares: frozenset[str] | None = None
    """Names of the common tools that it has beside its own; None: all. Tools of other packages are in every mode."""
    selection: SelectionRules | None = None
    """Rules by which connections select tools, if they differ from those of the other modes."""
    actor_tools: ActorToolMaker | None = None
    """Definition of the tools of single Actors, if it differs from that of the other modes."""
    mcp_tool_names: Callable[[str, Sequence[str]], Sequence[str]] | None = None
    """From an Actor that is an MCP server (`user/name`), and the names of its tools, to the names under which they are
    offered, where those are not as in the other modes."""
    runs_standby: bool = True
    """Whether Actors that serve requests (standby) may be run as other Actors are. Else one that is an MCP server is
    called by its tools, and one without an input of its own not at all."""
    wait: WaitRule = STANDARD_WAIT
    """Wait for a call, and the argument that sets it."""
    has_widgets: bool = False
    """Whether its clients show widgets: then keys `openai/` in the `_meta` of its tools, answers and resources reach
    them, and in no other mode."""
    tells_changes: bool = True
    """Whether answers have a text about arguments that were read as their schema has them; else only `_meta` does."""
    companions: tuple[str, ...] = ()
    """Names of the tools that every connection in this mode has, whatever it selects: those that its widgets call."""

    def __post_init__(self) -> None:
        """Freeze what was given as dicts, and refuse two tools of one name."""
        object.__setattr__(self, "common_meta", FrozenObject(self.common_meta))
        object.__setattr__(self, "actor_tool_meta", FrozenObject(self.actor_tool_meta))
        names = [definition.name for definition in self.tools]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"Mode {self.name!r} has two tools called {twice!r}: leave one of them out.")

    def dressed(self, definition: Tool) -> Tool:
        """A tool common to all modes as this mode offers it: a new definition where the mode adds to its `_meta`."""
        extra = self.actor_tool_meta if definition.actor else self.common_meta.get(definition.name)
        return replace(definition, meta_json=json.dumps({**definition.meta, **extra})) if extra else definition
