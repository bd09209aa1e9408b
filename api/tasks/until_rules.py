"""Whether a call may say when its run has produced enough (`options.until`)."""

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.outputs.jmespath_client import problem_of
from outlast.activities.runs.contracts import Until
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import InvalidCall
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.framework.tool import Tool


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
