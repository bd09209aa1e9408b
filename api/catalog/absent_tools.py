"""Errors about tools that exist and are not offered: the reason, and how to get the tool."""

from dataclasses import dataclass

from outlast.activities.contracts import Caller, ErrorEnvelope
from outlast.api.access.permissions import CallName, PermissionRules
from outlast.api.access.policy.source import PolicySource
from outlast.api.catalog.builtin_tools import BuiltinTools
from outlast.workflows.tools.framework.selection import TOOL_ALIASES
from outlast.workflows.tools.loader import base_tools
from outlast.workflows.tools.registry import MODES


@dataclass(frozen=True)
class AbsentTools:
    """Explains errors about unknown tools. Callers are told nothing about tools that the policy denies them."""

    builtin: BuiltinTools
    policy: PolicySource

    def explained(
        self, unknown: ErrorEnvelope, name: str, mode: str, caller: Caller, *, by_connection: bool = False
    ) -> ErrorEnvelope:
        """Return the error with the reason why `name` is not offered, if it exists.

        `by_connection` is True if connections select their tools; otherwise all tools of the mode are offered.
        """
        name = TOOL_ALIASES.get(name, name)
        ruling = PermissionRules.of(self.policy.current).ruling(caller.id, (CallName(name),))
        if mode not in MODES or (ruling is not None and ruling.action == "deny"):
            return unknown
        reason = self._reason(name, mode, by_connection=by_connection)
        if reason is None:
            return unknown
        hint = "Until then, use one of the available tools."
        return unknown.model_copy(update={"message": reason, "hint": hint})

    def _reason(self, name: str, mode: str, *, by_connection: bool) -> str | None:
        if by_connection and name in self.builtin.offered(mode).tools:
            how = f"add `?tools={name}` to the address, or `--tools {name}` to `outlast mcp`"
            return f"This connection has not selected the tool {name!r}. To select it, {how}, beside the other tools."
        is_of_actor = "--" in name
        if name in base_tools(mode).tools or (is_of_actor and not self.builtin.has_actors):
            return f"This server does not offer {name!r}: its operator has not chosen it in OUTLAST_BUILTIN_TOOLS."
        modes = [other for other in MODES if name in self.builtin.offered(other).tools]
        if modes:
            return f"The mode {mode!r} has no tool {name!r}. To get it, connect with `?mode={modes[0]}`."
        if by_connection and is_of_actor:
            how = "add `?actors=USER/NAME` to the address, or `--actors USER/NAME` to `outlast mcp`"
            return f"This connection has no tool {name!r}. To select the tool of an Actor, {how}."
        return None
