"""Rules for options of a call: reuse of an identical call, resurrection of its run, and a stop condition (`until`).

Each rule takes the option of the call, the policy of the operator and the kind of tool. Answers of tools that only
read, and of those that run an Actor, may be reused. Answers of tools that change something, and those that a person or
a client gave, may not.
"""

from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel, JsonValue

from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.outputs.jmespath_client import problem_of
from outlast.activities.runs.contracts import Resurrection, Until
from outlast.activities.secrets.encryption import SecretSealer
from outlast.api.access.permissions import Rule, names_of
from outlast.api.access.policy.contracts import Policy
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import InvalidCall
from outlast.contracts.tasks import TaskRequest
from outlast.workflows.contracts.tool_calls import PermissionRuling, age_of
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.tool import Tool

_DIGEST_CHARS = 32


@dataclass(frozen=True)
class Reusable:
    """A call that an identical one may answer. With `max_age` None it is always started, and answers later ones."""

    digest: str
    max_age: timedelta | None


@dataclass(frozen=True)
class ReuseRules:
    """The rule for one call: its own option, else the policy's."""

    policy: Policy
    sealer: SecretSealer

    def age_for(
        self, caller: Caller, request: TaskRequest, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> timedelta | None:
        """Maximum age of the answer of an identical call; zero to start the call in any case, None without reuse.

        Raises `InvalidCall` for a call that asks for reuse and may not have it.
        """
        wanted = request.options.reuse
        hindrance = _reuse_hindrance(tool, actor, is_paid=is_paid)
        if hindrance is not None:
            if wanted is not None:
                raise InvalidCall(_reuse_refused(tool, hindrance))
            return None
        if wanted is not None:
            return timedelta(0) if wanted.refresh or wanted.max_age is None else age_of(wanted.max_age)
        return self._by_policy(caller, tool, actor)

    def _by_policy(self, caller: Caller, tool: Tool, actor: CalledActor | None) -> timedelta | None:
        names = names_of(tool, actor.name if actor else None, actor.actor_id if actor else None)
        for entry in self.policy.reuse:
            rule = Rule(entry.caller, entry.tool, "allow", entry.tool)
            if any(rule.fits(caller.id, name) for name in names):
                return age_of(entry.max_age)
        return None

    def reusable(
        self, caller: Caller, request: TaskRequest, tool: Tool, mode: str, actor: CalledActor | None, age: timedelta
    ) -> Reusable:
        """The call with its digest, which is keyed: arguments may hold secrets."""
        options = request.options
        same: JsonObject = {
            "caller": caller.id,
            "reach": caller.reach,
            "tool": tool.name,
            "mode": mode,
            "actor": actor.name if actor else None,
            "build": actor.build_number if actor else None,
            "arguments": _canonical(tool, request.arguments, actor),
            "budget": options.budget.model_dump(mode="json"),
            "output": options.output.model_dump(mode="json"),
            "until": options.until.model_dump(mode="json") if options.until else None,
        }
        return Reusable(self.sealer.digests(same)[0][:_DIGEST_CHARS], age or None)


def may_reuse(permission: PermissionRuling | None) -> bool:
    """Whether the operator's rules leave the call alone: one that is denied, or that somebody approves, is its own."""
    return permission is None or permission.action == "allow"


@dataclass(frozen=True)
class ResurrectRules:
    """The rule for one call: its own option, and the policy's as its limit."""

    policy: Policy

    def allowed(
        self, caller: Caller, wanted: Resurrection | None, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> Resurrection | None:
        """How often; None for never. Raises `InvalidCall` for a call that asks for it and can have none."""
        hindrance = _resurrection_hindrance(tool, actor, is_paid=is_paid)
        if hindrance is not None:
            if wanted is not None and wanted.max_times:
                raise InvalidCall(_resurrection_refused(tool, hindrance))
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


def check_until(until: Until | None, tool: Tool, actor: CalledActor | None) -> None:
    """Raise `InvalidCall` where there is no run that could be stopped, and for an expression that cannot be applied."""
    if until is None:
        return
    if not tool.runs_actor or (actor is not None and split_actor_tool(actor.name)[1] is not None):
        raise InvalidCall(
            ErrorEnvelope.permanent(
                ErrorCategory.VALIDATION,
                tool.name,
                f"This call of {tool.name} starts no run of an Actor, so it cannot be stopped with enough.",
                hint="Call it without options.until.",
            )
        )
    problem = problem_of(until.expression) if until.expression is not None else None
    if problem is not None:
        raise InvalidCall(
            ErrorEnvelope.permanent(
                ErrorCategory.VALIDATION,
                tool.name,
                f"options.until.expression: {problem}",
                violations=(Violation(path="/options/until/expression", message=problem),),
            )
        )


def _resurrection_hindrance(tool: Tool, actor: CalledActor | None, *, is_paid: bool) -> str | None:
    """The reason why no run of the call can be resurrected; None if one can."""
    if not tool.runs_actor or (actor is not None and split_actor_tool(actor.name)[1]):
        return "it starts no run"
    if is_paid:
        return "the call brings a payment of its own, which is spent with the run's first life"
    return None


def _resurrection_refused(tool: Tool, hindrance: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool.name,
        f"No run of this call of {tool.name} can be resurrected: {hindrance}.",
        hint="Call it without options.resurrect.",
    )


def _reuse_hindrance(tool: Tool, actor: CalledActor | None, *, is_paid: bool) -> str | None:
    """The reason why a call cannot be answered by an identical one; None if it can."""
    if is_paid:
        return "the call brings a payment of its own"
    if tool.client is not None or tool.approval is not None or tool.client_needs:
        return "a person or a client takes part in the answer"
    if tool.restores:
        return "it reads a stored output"
    if actor is not None:
        return "what a tool of another MCP server does is not known" if split_actor_tool(actor.name)[1] else None
    if tool.runs_actor or not tool.annotations.read_only or tool.in_front:
        return "it does something, and an answer of another call would not have done it"
    return None


def _reuse_refused(tool: Tool, hindrance: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool.name,
        f"Calls of {tool.name} cannot be reused: {hindrance}.",
        hint="Call it without options.reuse.",
    )


def _canonical(tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> JsonValue:
    """Arguments in one form: with the defaults of the tool, and the Actor by its full name."""
    parsed = tool.parse(arguments)
    written: JsonObject = (
        parsed.model_dump(mode="json", by_alias=True) if isinstance(parsed, BaseModel) else dict(arguments)
    )
    if actor is not None and tool.actor is None and "actor" in written:
        written["actor"] = actor.name
    return written
