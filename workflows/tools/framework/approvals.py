"""Approval of a call before it runs: yes, no, or yes with other arguments."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import cast

from pydantic import JsonValue, ValidationError
from temporalio import workflow

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_schema.violations import quick_violations
from outlast.activities.secrets import masked, places_of_masks, unmasked
from outlast.activities.unicode_text import printable
from outlast.workflows.contracts.questions import APPROVAL_KEY, DECISION_SCHEMA, ApprovalAnswer, Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import APPROVAL_META, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import describe_duration
from outlast.workflows.tools.framework.phases import DEFAULT_DEADLINE, Approval, violations_of
from outlast.workflows.tools.framework.plain_functions import decide_approval
from outlast.workflows.tools.framework.tool import Tool, values_at

_MAX_SHOWN_BYTES = 32_768
_MAX_BEGIN_CHARS = 2_000


class Verdict(Contract):
    """An approval or a refusal, and its author."""

    granted: bool
    at: str
    approved_by: str | None = None
    note: str | None = None
    arguments: JsonObject | None = None

    def recorded_in(self, result: ToolResult) -> ToolResult:
        """Add the verdict to the meta of `result`."""
        decision = "no" if not self.granted else "edited" if self.arguments is not None else "yes"
        record: dict[str, JsonValue] = {"decision": decision, "by": self.approved_by, "at": self.at}
        if self.note:
            record["note"] = self.note
        return result.model_copy(update={"meta": {**result.meta, APPROVAL_META: record}})


async def ask_approval(ctx: HandlerContext, definition: Tool, approval: Approval) -> Verdict:
    """Ask for approval and wait durably. Raises `ToolError` when nobody decides in time."""

    def check(content: JsonObject) -> tuple[Violation, ...]:
        return _violations(definition, ctx.call.arguments, content, may_edit=not _approvers(ctx))

    questions = {APPROVAL_KEY: _question(ctx, definition, approval)}
    try:
        answers = await ctx.questions.ask(questions, timeout=approval.deadline, checks={APPROVAL_KEY: check})
    except TimeoutError:
        message = f"Nobody approved the call of {definition.name} within {describe_duration(approval.deadline)}."
        hint = "Call again when somebody can approve it."
        envelope = ErrorEnvelope.transient(ErrorCategory.TIMEOUT, definition.name, message, hint=hint)
        raise ToolError(envelope) from None
    answer, answered_by = answers[APPROVAL_KEY], ctx.questions.answered_by(APPROVAL_KEY)
    decided = (
        ApprovalAnswer.model_validate(answer.content)
        if answer.action == "accept"
        else ApprovalAnswer(decision="no", note=answer.message)
    )
    edited = unmasked(decided.arguments, ctx.call.arguments) if decided.arguments is not None else None
    return Verdict(
        granted=decided.decision == "yes",
        approved_by=answered_by,
        at=workflow.now().isoformat(timespec="seconds"),
        note=decided.note,
        arguments=edited if isinstance(edited, dict) and decided.decision == "yes" else None,
    )


async def approval_of(ctx: HandlerContext, definition: Tool) -> Approval | None:
    """Return the approval that the tool or the operator's rule requires for the call, if any.

    An activity decides for the tool, so that the decision is recorded: the tool may be changed while the call waits.
    """
    if ctx.call.has_approval:
        decision = await decide_approval(ctx)
        if decision.is_due:
            return Approval(message=decision.message, deadline=timedelta(seconds=decision.seconds))
    own = definition.approval if ctx.call.has_approval is None else None
    if own is not None and own.is_due(definition.parse(ctx.call.arguments)):
        return own
    ruling = ctx.call.permission
    return Approval(deadline=DEFAULT_DEADLINE) if ruling is not None and ruling.action == "ask" else None


def _approvers(ctx: HandlerContext) -> tuple[str, ...]:
    """Return the roles of which the operator's rule requires one, also for an approval that the tool requires."""
    ruling = ctx.call.permission
    return ruling.approvers if ruling is not None else ()


def denied(ctx: HandlerContext, definition: Tool) -> ErrorEnvelope:
    """Return the error for a call that the operator's rules deny."""
    rule = f" ({ctx.call.permission.rule})" if ctx.call.permission else ""
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        definition.name,
        f"{ctx.call.caller.id} may not call {definition.name}: the operator's permissions deny it{rule}.",
        hint="Do not call it again; use another tool, or ask the operator.",
    )


def refused(definition: Tool, verdict: Verdict) -> ErrorEnvelope:
    """Return the error for a call that was not approved."""
    who = verdict.approved_by or "the client"
    note = f" They wrote: {verdict.note}" if verdict.note else ""
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        definition.name,
        f"The call of {definition.name} was not approved by {who}.{note}",
        hint="Do not call it again in the same way; do what the note says, or ask the user.",
    )


def _question(ctx: HandlerContext, definition: Tool, approval: Approval) -> InputRequest:
    message = approval.message
    if callable(message):  # of a call whose decision is not recorded
        message = message(definition.parse(ctx.call.arguments))
    message = message or f"Allow {definition.name}, called by {ctx.call.caller.id}?"
    approvers = _approvers(ctx)
    return InputRequest(
        message=printable(message),
        requested_schema=DECISION_SCHEMA if approvers else _answer_schema(definition),
        handoff=Handoff(
            kind="approval",
            tool=definition.name,
            phase=APPROVAL_KEY,
            parameters=_approved_parts(ctx, definition),
            deadline=workflow.now() + approval.deadline,
            maker=ctx.call.caller.id,
            approvers=approvers,
        ),
    )


def _approved_parts(ctx: HandlerContext, definition: Tool) -> JsonObject:
    """Return the subject of an approval: the arguments, and for a call of an Actor its name and its cost limit."""
    shown = _shown(ctx.call.arguments)
    known = ctx.call.permission.actor if ctx.call.permission is not None else None
    actor = known or ctx.call.actor or ctx.call.arguments.get("actor")
    if not definition.calls_actor or not isinstance(actor, str):
        return shown
    return {**shown, "actor": actor, "budget": _limits(ctx)}


def _limits(ctx: HandlerContext) -> JsonObject:
    """Return the limits of the call's budget and of the caller. Those among the arguments are shown with them."""
    limits: JsonObject = ctx.call.options.budget.model_dump(mode="json", exclude_none=True)
    caps = ctx.call.caps.model_dump(exclude_none=True).values() if ctx.call.caps is not None else ()
    charges = [Decimal(str(given)) for given in (limits.get("max_total_charge_usd"), *caps) if given is not None]
    return {**limits, "max_total_charge_usd": str(min(charges))} if charges else limits


def _shown(arguments: JsonObject) -> JsonObject:
    """Return the arguments to approve with masked secrets; only their beginning if they are too large for a memo."""
    shown: JsonValue = masked(arguments)
    size = len(ApprovalAnswer(decision="yes", arguments=arguments).model_dump_json())
    if size <= _MAX_SHOWN_BYTES:
        return {"arguments": shown}
    begin = json.dumps(shown, ensure_ascii=False)[:_MAX_BEGIN_CHARS]
    return {"arguments_begin": begin, "arguments_omitted_bytes": size}


def _answer_schema(definition: Tool) -> JsonObject:
    """Return the JSON Schema of the answer. The tool's `$defs` stay at the root, to which references point."""
    own = definition.input_schema
    definitions = own.pop("$defs", None)
    edited: JsonObject = {**own, "title": "Arguments", "description": "Run with these instead: all, not the changes."}
    decision = cast(JsonObject, DECISION_SCHEMA["properties"])
    schema: JsonObject = {**DECISION_SCHEMA, "properties": {**decision, "arguments": edited}}
    return {**schema, "$defs": definitions} if definitions else schema


def _violations(
    definition: Tool, original: JsonObject, content: JsonObject, *, may_edit: bool
) -> tuple[Violation, ...]:
    unknown = sorted(set(content) - set(ApprovalAnswer.model_fields))
    if not may_edit and content.get("arguments") is not None:
        unknown.append("arguments")
    if unknown:
        return tuple(Violation.at([name], "This is not asked for.") for name in unknown)
    try:
        answer = ApprovalAnswer.model_validate(content)
    except ValidationError as error:
        return violations_of(error)
    if answer.arguments is None:
        return ()
    edited = unmasked(answer.arguments, original)
    found = _mask_violations(definition, answer.arguments, edited, original) or _argument_violations(definition, edited)
    return tuple(Violation(path=f"/arguments{one.path}", message=one.message) for one in found)


def _mask_violations(
    definition: Tool, given: JsonObject, edited: JsonValue, original: JsonObject
) -> tuple[Violation, ...]:
    """Find masks that replace no secret, and secrets that would go to another Actor."""
    astray = sorted(places_of_masks(edited) - places_of_masks(original), key=str)
    if astray:
        return tuple(Violation.at(place, "Nothing was masked here: write the value itself.") for place in astray)
    if _targets(definition, given) == _targets(definition, original):
        return ()
    kept = sorted(places_of_masks(given) - places_of_masks(original), key=str)
    named = ", ".join(_targets(definition, original))
    message = f"This secret was given for {named}: write the one for another Actor."
    return tuple(Violation.at(place, message) for place in kept)


def _targets(definition: Tool, arguments: JsonObject) -> list[str]:
    """Return the Actors and saved tasks that get the arguments."""
    places = ("actor", *definition.planned_actors, *definition.planned_tasks)
    return [str(value) for place in dict.fromkeys(places) for value in values_at(arguments, place)]


def _argument_violations(definition: Tool, edited: JsonValue) -> tuple[Violation, ...]:
    """Return the violations of the tool's schema by edited arguments."""
    assert isinstance(edited, dict)
    if definition.arguments is None:
        return quick_violations(definition.input_schema, edited) or ()  # the entry point has made slower checks
    try:
        definition.parse(edited)
    except ToolError as error:
        return error.envelope.violations or ()
    return ()
