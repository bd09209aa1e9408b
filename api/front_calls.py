"""Calls of tools that a front door answers itself: they manage tasks and batches, and need no workflow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outlast.api.access.principal import Principal
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class FrontCall:
    """One such call, and what its connection says of it."""

    principal: Principal
    definition: Tool
    arguments: Mapping[str, Any]
    mode: str
    mask: Mapping[str, bool] | None = None
    offered: tuple[str, ...] = ()
    """Tools of the connection; empty when it has all."""
    idempotency_key: str | None = None
