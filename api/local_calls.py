"""Calls of tools that an entry point answers locally, without a workflow."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.access.principal import Principal
from outlast.api.errors import InvalidCall
from outlast.workflows.handler_api.failures import ToolError
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
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options from the calling program for the calls that the tool starts, in the nested form of the REST API."""

    def check_offered(self, tool: str, *, besides: Container[str]) -> None:
        """Raise `InvalidCall` unless the connection has `tool`: models cannot start other tools indirectly.

        The error lists the tools of the connection without those in `besides`.
        """
        if self.offered and tool not in self.offered:
            raise InvalidCall(
                ErrorEnvelope.permanent(
                    ErrorCategory.PERMISSION,
                    self.definition.name,
                    f"There is no tool {tool!r} on this connection.",
                    hint="Choose one of the available tools.",
                    allowed_tools=tuple(name for name in self.offered if name not in besides),
                )
            )

    def with_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Add the options of the calling program to `body`. Raises `ToolError` for one that the model sets, too."""
        if not self.options:
            return dict(body)
        try:
            return {**body, "options": merged_options(body.get("options") or {}, self.options)}
        except ValueError as error:
            message = f"The calling program has set {error} for this call: leave it out of the arguments."
            raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, self.definition.name, message)) from error


def merged_options(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options in their nested form. Raises `ValueError` with the quoted name of one that both have."""
    merged = dict(one)
    for name, value in other.items():
        if merged.get(name) is None:
            merged[name] = value
        elif isinstance(value, Mapping) and isinstance(merged[name], Mapping):
            merged[name] = merged_options(merged[name], cast(Mapping[str, Any], value))
        else:
            raise ValueError(repr(name))
    return merged
