"""`Mode`: a way of presenting tools, for one kind of client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from outlast.workflows.runtime.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class Mode:
    """One way of presenting tools. Names and categories of tools are the same in every mode."""

    name: str
    executor: ActorExecutor
    tools: tuple[Tool, ...]
    instructions: str = ""
    common_meta: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, Mapping[str, JsonValue]])
    """`_meta` that this mode adds to tools which are otherwise the same in every mode, by the tool's name."""
    actor_tool_meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """`_meta` of the tools of single Actors."""

    def dressed(self, definition: Tool) -> Tool:
        """A tool common to all modes as this mode offers it: a new definition where the mode adds to its `_meta`."""
        extra = self.actor_tool_meta if definition.actor else self.common_meta.get(definition.name)
        return replace(definition, meta_json=json.dumps({**definition.meta, **extra})) if extra else definition
