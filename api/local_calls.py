"""Calls of tools that an entry point answers locally, without a workflow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outlast.api.access.principal import Principal
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class LocalCall:
    """A call of a local tool, with facts of its connection."""

    principal: Principal
    definition: Tool
    arguments: Mapping[str, Any]
    mode: str
    mask: Mapping[str, bool] | None = None
    offered: tuple[str, ...] = ()
    """Tools of the connection; empty when it has all."""
    idempotency_key: str | None = None
