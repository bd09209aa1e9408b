"""How a step's active tools are made known to a provider: in one pure function, for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.activities.llm.providers.capabilities import Capabilities
from outlast.activities.llm.providers.definitions import Definition


@dataclass(frozen=True)
class ToolPlan:
    """What to say about the tools, besides their constant definitions."""

    choice: Literal["free", "some", "none"]
    """`some`: only `allowed`; `free`: nothing is said."""
    allowed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_tools(
    definitions: Sequence[Definition], active: Sequence[str] | None, provider_id: str, can: Capabilities
) -> ToolPlan:
    """Falls back, with a warning, to saying nothing where the provider takes nothing; its caller refuses the calls."""
    if active is None or not definitions:
        return ToolPlan("free")
    allowed = tuple(one.name for one in definitions if one.name in active)
    if len(allowed) == len(definitions):
        return ToolPlan("free")
    if not allowed:
        if can.forbids_all_tools:
            return ToolPlan("none")
        return ToolPlan("free", warnings=(f"{provider_id} cannot be told to call no tool: calls are refused.",))
    if can.limits_active_tools:
        return ToolPlan("some", allowed)
    warning = f"{provider_id} cannot be told which tools are active: calls of the others are refused."
    return ToolPlan("free", warnings=(warning,))
