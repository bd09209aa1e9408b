"""How often a run of a call may be resurrected: what its caller and the operator's policy say, and what the tool is."""

from dataclasses import dataclass

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.runs.contracts import Resurrection
from outlast.api.access.permissions import Rule, names_of
from outlast.api.access.policy.contracts import Policy
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import InvalidCall
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.tool import Tool


@dataclass(frozen=True)
class ResurrectRules:
    """The rule for one call: its own option, and the policy's as its limit."""

    policy: Policy

    def allowed(
        self, caller: Caller, wanted: Resurrection | None, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> Resurrection | None:
        """How often; None for never. Raises `InvalidCall` for a call that asks for it and can have none."""
        hindrance = _hindrance(tool, actor, is_paid=is_paid)
        if hindrance is not None:
            if wanted is not None and wanted.max_times:
                raise InvalidCall(_refused(tool, hindrance))
            return None
        limit = self._by_policy(caller, tool, actor)
        given = [one for one in (wanted.max_times if wanted is not None else None, limit) if one is not None]
        times = min(given, default=0)
        return Resurrection(max_times=times) if times else None

    def _by_policy(self, caller: Caller, tool: Tool, actor: CalledActor | None) -> int | None:
        names = names_of(tool, actor.name if actor else None, actor.actor_id if actor else None)
        for entry in self.policy.resurrect:
            rule = Rule(entry.caller, entry.tool, "allow", entry.tool)
            if any(rule.fits(caller.id, name) for name in names):
                return entry.max_times
        return None


def _hindrance(tool: Tool, actor: CalledActor | None, *, is_paid: bool) -> str | None:
    """Why no run of the call can be resurrected; None when one can."""
    if not tool.runs_actor or (actor is not None and split_actor_tool(actor.name)[1]):
        return "it starts no run"
    if is_paid:
        return "the call brings a payment of its own, which is spent with the run's first life"
    return None


def _refused(tool: Tool, hindrance: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool.name,
        f"No run of this call of {tool.name} can be resurrected: {hindrance}.",
        hint="Call it without options.resurrect.",
    )
