"""Decides how to tell a provider which tools are active in a step. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.activities.llm.providers.capabilities import Capabilities
from outlast.activities.llm.providers.tool_definitions import Definition


@dataclass(frozen=True)
class ToolPlan:
    """The part of a request about the tools, in addition to their constant definitions."""

    choice: Literal["free", "some", "none"]
    """`some`: only `allowed`; `none`: no tool; `free`: the request says nothing."""
    allowed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_tools(
    definitions: Sequence[Definition], active: Sequence[str] | None, provider_id: str, can: Capabilities
) -> ToolPlan:
    """The plan for a step. For a provider without the capability it is `free`, with a warning: the caller of the
    provider then refuses calls of inactive tools.
    """
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
