"""Rules for options of a call: reuse of an identical call, resurrection of its run, and a stop condition (`until`).

Answers of tools that only read or run an Actor may be reused; changes and answers of a person or a client may not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from outlast.activities.contracts import Caller, JsonObject, Violation
from outlast.activities.outputs.jmespath_client import problem_of
from outlast.activities.runs.contracts import Resurrection, Until
from outlast.activities.secrets import SecretSealer
from outlast.api.access.permissions import Rule, names_of
from outlast.api.access.policy.contracts import Policy, ResurrectEntry, ReuseEntry
from outlast.api.catalog.catalog import CalledActor
from outlast.api.tasks.arguments import invalid_call
from outlast.contracts.tasks import TaskRequest
from outlast.workflows.contracts.tool_calls import PermissionRuling, age_of
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.tool import Tool

_DIGEST_CHARS = 32
Entry = TypeVar("Entry", ReuseEntry, ResurrectEntry)


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

        Raises `InvalidCall` for a call that requests reuse and may not have it.
        """
        wanted = request.options.reuse
        hindrance = _reuse_hindrance(tool, actor, is_paid=is_paid)
        if hindrance is not None:
            if wanted is not None:
                message = f"Calls of {tool.name} cannot be reused: {hindrance}."
                raise invalid_call(tool.name, message, "Call it without options.reuse.")
            return None
        if wanted is not None:
            return timedelta(0) if wanted.refresh or wanted.max_age is None else age_of(wanted.max_age)
        entry = _first_fitting(self.policy.reuse, caller, tool, actor)
        age = entry.max_age if entry is not None else tool.reuse
        return age_of(age) if age is not None else None

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
        if tool.server is not None:
            same["server"] = tool.server.config_digest
        if tool.version > 1:
            same["version"] = tool.version
        return Reusable(self.sealer.digests(same)[0][:_DIGEST_CHARS], age or None)


def may_reuse(permission: PermissionRuling | None) -> bool:
    """Return whether the operator's rules allow reuse: a call that is denied or needs approval is not deduplicated."""
    return permission is None or permission.action == "allow"


@dataclass(frozen=True)
class ResurrectRules:
    """The rule for one call: its own option, limited by the policy's."""

    policy: Policy

    def allowed(
        self, caller: Caller, wanted: Resurrection | None, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> Resurrection | None:
        """The allowed number of times; None for never. Raises `InvalidCall` for an option that cannot apply."""
        hindrance = _resurrection_hindrance(tool, actor, is_paid=is_paid)
        if hindrance is not None:
            if wanted is not None and wanted.max_times:
                message = f"No run of this call of {tool.name} can be resurrected: {hindrance}."
                raise invalid_call(tool.name, message, "Call it without options.resurrect.")
            return None
        entry = _first_fitting(self.policy.resurrect, caller, tool, actor)
        times = min((given.max_times for given in (wanted, entry) if given is not None), default=0)
        return Resurrection(max_times=times) if times else None


def _first_fitting(entries: Iterable[Entry], caller: Caller, tool: Tool, actor: CalledActor | None) -> Entry | None:
    """The first entry of the policy that is about the caller and the tool or Actor."""
    names = names_of(tool, actor.name if actor else None, actor.actor_id if actor else None)
    for entry in entries:
        rule = Rule(entry.caller, entry.tool, "allow", entry.tool)
        if any(rule.fits(caller.id, name) for name in names):
            return entry
    return None


def check_until(until: Until | None, tool: Tool, actor: CalledActor | None) -> None:
    """Raise `InvalidCall` for a stop condition without a run to stop, or with an invalid expression."""
    if until is None:
        return
    if not tool.runs_actor or (actor is not None and split_actor_tool(actor.name)[1] is not None):
        message = f"This call of {tool.name} starts no run of an Actor, so no stop condition can apply."
        raise invalid_call(tool.name, message, "Call it without options.until.")
    problem = problem_of(until.expression) if until.expression is not None else None
    if problem is not None:
        violation = Violation(path="/options/until/expression", message=problem)
        raise invalid_call(tool.name, f"options.until.expression: {problem}", violations=(violation,))


def _resurrection_hindrance(tool: Tool, actor: CalledActor | None, *, is_paid: bool) -> str | None:
    """The reason why no run of the call can be resurrected; None if one can."""
    if not tool.runs_actor or (actor is not None and split_actor_tool(actor.name)[1]):
        return "it starts no run"
    if is_paid:
        return "the payment of the call is spent with the run's first attempt"
    return None


def _reuse_hindrance(tool: Tool, actor: CalledActor | None, *, is_paid: bool) -> str | None:
    """The reason why a call cannot be answered by an identical one; None if it can."""
    if is_paid:
        return "the call has its own payment"
    if tool.client is not None or tool.approval is not None or tool.client_needs:
        return "a person or a client contributes to the answer"
    if tool.restores:
        return "it reads a stored output"
    if actor is not None:
        return "the effects of a tool of another MCP server are unknown" if split_actor_tool(actor.name)[1] else None
    if tool.runs_actor or not tool.annotations.read_only or tool.in_front:
        return "it has effects, which the answer of another call would not have"
    return None


def _canonical(tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> JsonValue:
    """Arguments in one form: with the defaults of the tool, and the Actor by its full name."""
    parsed = tool.parse(arguments)
    written: JsonObject = (
        parsed.model_dump(mode="json", by_alias=True) if isinstance(parsed, BaseModel) else dict(arguments)
    )
    if actor is not None and tool.actor is None and "actor" in written:
        written["actor"] = actor.name
    return written
