"""`Mode`, a way of presenting tools to one kind of client, and the wait of entry points for answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NotRequired, TypedDict

from pydantic import JsonValue

from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.frozen_json import FrozenObject
from outlast.workflows.tools.framework.selection import SelectionRules
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class WaitRule:
    """Wait for tools whose calls may take long. Only entry points see the argument, workflows do not."""

    default_seconds: float = 45
    max_seconds: int | None = None
    """Maximum of the argument; None: the server's limit."""
    kind: Literal["number", "integer"] = "number"
    description: str = (
        "Seconds to wait for the result. After that, the call continues: collect the result with get-task."
    )
    replaces: bool = False
    """True if it replaces a field of that name in an Actor's own input; otherwise that tool lacks the argument."""
    of_servers: bool = True
    """True if tools of Actors that are MCP servers have the argument; otherwise their schemas are unchanged."""
    other_seconds: float = 45
    """Wait for other tools, whose calls take seconds."""


STANDARD_WAIT = WaitRule()


@dataclass(frozen=True)
class Instruction:
    """Part of the instructions for models. It is included only if all of `tools`, which it names, are offered."""

    text: str
    tools: tuple[str, ...] = ()
    about: Literal["runs", "platform"] | None = None
    """`runs`: included only with a tool that runs an Actor; `platform`: only with a tool for the Apify platform."""


class ActorFacts(TypedDict):
    """Properties of an Actor for its direct tool. `schema` is the Actor's own input schema."""

    title: str
    description: str
    schema: dict[str, JsonValue]
    picture_url: NotRequired[str | None]
    default_memory_mbytes: NotRequired[int | None]
    """Unknown in workflows, as `picture_url`: both are for listing and admission."""


@dataclass(frozen=True)
class Mode:
    """One way of presenting tools. A name belongs to the same category in every mode.

    Raises `ValueError` for two tools of the same name.
    """

    name: str
    executor: ActorExecutor
    tools: tuple[Tool, ...]
    """The mode's own tools. A tool with the name of a common one replaces it in this mode."""
    instructions: tuple[Instruction, ...] = ()
    common_meta: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, Mapping[str, JsonValue]])
    """`_meta` that this mode adds to common tools, by the tool's name."""
    actor_tool_meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """`_meta` of the tools of single Actors."""
    actor_tool_purpose: str = "This tool calls the Actor {actor} and returns what it produced."
    """First sentence of the description of a single Actor's tool; `{actor}` is replaced by the Actor's name."""
    shares: frozenset[str] | None = None
    """Names of the common tools in the mode; None: all. Tools of other packages are in every mode."""
    selection: SelectionRules | None = None
    """Rules by which connections select tools, if they differ from those of the other modes."""
    actor_tools: Callable[..., Tool] | None = None
    """Maker of the tool of a single Actor, if it differs from that of the other modes. It takes the executor, the Actor
    and its `ActorFacts` as keywords."""
    mcp_tool_names: Callable[[str, Sequence[str]], Sequence[str]] | None = None
    """Function from an Actor that is an MCP server (`user/name`) and the names of its tools to the names under which
    they are offered, if those differ from the other modes."""
    runs_standby: bool = True
    """True if Actors that serve requests (standby) may be run as other Actors are. Otherwise an MCP server is called by
    its tools, and an Actor without an input cannot be called."""
    wait: WaitRule = STANDARD_WAIT
    """Wait for a call, and the argument that sets it."""
    has_widgets: bool = False
    """True if its clients show widgets. Only then do they get keys `openai/` in the `_meta` of tools, answers and
    resources."""
    tells_changes: bool = True
    """True if answers have a text about arguments that were changed to match their schema; otherwise only `_meta`."""
    companions: tuple[str, ...] = ()
    """Names of the tools that every connection in this mode has, because its widgets call them."""

    def __post_init__(self) -> None:
        """Freeze the dicts, and reject two tools with one name."""
        object.__setattr__(self, "common_meta", FrozenObject(self.common_meta))
        object.__setattr__(self, "actor_tool_meta", FrozenObject(self.actor_tool_meta))
        names = [definition.name for definition in self.tools]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"Mode {self.name!r} has two tools called {twice!r}: leave one of them out.")

    def dressed(self, definition: Tool) -> Tool:
        """Return a common tool with the `_meta` that this mode adds."""
        extra = self.actor_tool_meta if definition.actor else self.common_meta.get(definition.name)
        return replace(definition, meta_json=json.dumps({**definition.meta, **extra})) if extra else definition
