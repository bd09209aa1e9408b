"""Hands a call over to its client and waits durably: the client's reply, or the reason why there is none."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.questions import Handoff, InputAnswer, InputRequest
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.durations import in_words
from outlast.workflows.tools.framework.phases import DEFAULT_DEADLINE, ClientPhase, Reply

NoReplyReason = Literal["declined", "cancelled", "error", "timeout", "not_handed"]


@dataclass(frozen=True)
class NoReply:
    """The client gave no answer, and the phase has no default that could stand in for it."""

    reason: NoReplyReason
    message: str
    """The event, as a sentence."""
    answered_by: str | None = None
    """Id of the caller who declined, cancelled or failed; None when nobody did anything in time."""


async def hand_over(
    ctx: ToolContext, phase: ClientPhase, parameters: JsonObject, *, default_deadline: timedelta = DEFAULT_DEADLINE
) -> Reply[Any] | NoReply:
    """Ask the client and wait durably, until the phase's deadline or, where it has none, for `default_deadline`."""
    deadline = phase.deadline or default_deadline
    handoff = Handoff(
        audience=phase.audience,
        tool=ctx.call.tool,
        phase=phase.name,
        parameters=parameters,
        deadline=workflow.now() + deadline,
    )
    question = InputRequest(message=phase.message_for(parameters), requested_schema=phase.schema, handoff=handoff)
    workflow.logger.info("handed to the client", extra={"tool": ctx.call.tool, "phase": phase.name})
    try:
        answers = await ctx.questions.ask(
            {phase.name: question}, timeout=deadline, checks={phase.name: phase.violations}
        )
    except TimeoutError:
        return _at_the_deadline(phase, parameters, deadline)
    answer, answered_by = answers[phase.name], ctx.questions.answered_by(phase.name)
    if answer.action == "accept":
        return Reply(phase.parse(answer.content), parameters, answered_by)
    return _without_content(phase, answer, answered_by)


async def required_reply(ctx: ToolContext, phase: ClientPhase, parameters: JsonObject) -> Reply[Any]:
    """The client's reply to a phase that the call cannot do without. Raises `ToolError` when there is none."""
    reply = await hand_over(ctx, phase, parameters)
    if isinstance(reply, NoReply):
        raise ToolError(_error(ctx.call.tool, reply))
    return reply


def not_handed(phase: ClientPhase, reason: str) -> NoReply:
    """The reply to what the client never got."""
    return NoReply("not_handed", f"The client did not get this for {phase.name!r}: {reason}.")


def _at_the_deadline(phase: ClientPhase, parameters: JsonObject, deadline: timedelta) -> Reply[Any] | NoReply:
    default = phase.default_content
    if default is not None:
        return Reply(phase.parse(default), parameters)
    return NoReply("timeout", f"Nobody answered {phase.name!r} within {in_words(deadline)}.")


def _without_content(phase: ClientPhase, answer: InputAnswer, answered_by: str | None) -> NoReply:
    words = " ".join((answer.message or "").split())
    given = f' It said: "{words}".' if words else ""
    if answer.action == "decline":
        return NoReply("declined", f"The client declined {phase.name!r} without an answer.{given}", answered_by)
    if answer.action == "cancel":
        return NoReply("cancelled", f"The client closed {phase.name!r} without an answer.{given}", answered_by)
    return NoReply("error", f"The client failed in {phase.name!r}.{given}", answered_by)


def _error(tool: str, missing: NoReply) -> ErrorEnvelope:
    if missing.reason == "timeout":
        hint = "Call again when somebody can answer."
        return ErrorEnvelope.transient(ErrorCategory.TIMEOUT, tool, missing.message, hint=hint)
    if missing.reason == "error":
        hint = "Tell the user what failed on their machine; call again when it is fixed."
        return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, missing.message, hint=hint)
    hint = "Do not ask for the same again unless the user wants it."
    return ErrorEnvelope.permanent(ErrorCategory.PERMISSION, tool, missing.message, hint=hint)
