"""Schedules: Actors and saved tasks that the platform runs at times of a cron expression. What all modes do with them.

Fields are those of the platform's API (Apify API v2, `schedules`); what calls and answers look like is each mode's.
"""

import hashlib
from collections.abc import Sequence

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.core.platform_references import own_username, platform_reference
from outlast.workflows.tools.core.schedule_actions import INPUT_TEXTS, ScheduledRun, as_sent, problem_of

SCHEDULES = "schedules"
INPUTS = ("actions/*/input", "actions/*/runInput")
"""The places of a schedule whose values may be secret."""
_DIGEST_CHARS = 8


async def schedule(ctx: ToolContext, written: object) -> JsonObject:
    """The schedule as it is. Raises `ToolError` when the caller has none of this id or name."""
    return await ctx.platform.get(SCHEDULES, await platform_reference(ctx, written))


async def create_schedule(
    ctx: ToolContext, fields: JsonObject, runs: Sequence[ScheduledRun], *, hidden: tuple[str, ...] = INPUTS
) -> JsonObject:
    """Make a schedule once, whatever fails in between; the schedule without what is `hidden`.

    Without a name it gets one that is the same in every attempt.
    """
    _refuse_uncounted(ctx)
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    defaults: JsonObject = {"name": f"schedule-{digest}", "timezone": "UTC", "isEnabled": True, "isExclusive": True}
    _check(ctx, runs)
    body: JsonObject = {**defaults, **fields, "actions": [*await _actions(ctx, runs)]}
    found_at = f"{await own_username(ctx)}~{body['name']}"
    return await ctx.platform_writes.create(SCHEDULES, body, found_at=found_at, texts=INPUT_TEXTS, hidden=hidden)


async def change_schedule(
    ctx: ToolContext,
    written: object,
    fields: JsonObject,
    runs: Sequence[ScheduledRun] | None,
    *,
    hidden: tuple[str, ...] = INPUTS,
) -> JsonObject:
    """Change these fields, and what it runs unless that is None; the schedule then, without what is `hidden`."""
    if fields.get("isEnabled") or "cronExpression" in fields or runs is not None:
        _refuse_uncounted(ctx)
    _check(ctx, runs or ())
    reference = await platform_reference(ctx, written)
    body: JsonObject = fields if runs is None else {**fields, "actions": [*await _actions(ctx, runs)]}
    return await ctx.platform_writes.update(SCHEDULES, reference, body, texts=INPUT_TEXTS, hidden=hidden)


async def delete_schedule(ctx: ToolContext, written: object) -> JsonObject:
    """Remove a schedule for good; its id and its name. What it has started goes on."""
    found = await ctx.platform.part(SCHEDULES, await platform_reference(ctx, written), members=("id", "name"))
    await ctx.platform_writes.delete(SCHEDULES, str(found.get("id")))
    return found


async def _actions(ctx: ToolContext, runs: Sequence[ScheduledRun]) -> list[JsonObject]:
    return [as_sent(run, await _target(ctx, run)) for run in runs]


async def _target(ctx: ToolContext, run: ScheduledRun) -> str:
    """The id of the Actor or of the saved task. Raises `ToolError`, which names what there is not."""
    collection, written = ("actor-tasks", run.task) if run.task else ("acts", run.actor)
    try:
        found = await ctx.platform.part(collection, await platform_reference(ctx, written), members=("id",))
    except ToolError as error:
        if error.envelope.category is not ErrorCategory.NOT_FOUND:
            raise
        message = f"{'Task' if run.task else 'Actor'} {written} was not found."
        raise ToolError(error.envelope.model_copy(update={"message": message})) from error
    return str(found.get("id"))


def _check(ctx: ToolContext, runs: Sequence[ScheduledRun]) -> None:
    """Raise `ToolError` for what the platform would refuse."""
    problem = problem_of(runs)
    if problem is None:
        return
    path, _, message = problem.partition(": ")
    raise ToolError(
        ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            ctx.call.tool,
            f"The actions do not fit. {problem}",
            violations=(Violation(path=path, message=message),),
        )
    )


def _refuse_uncounted(ctx: ToolContext) -> None:
    """Raise `ToolError` for a caller with caps: what the platform starts at its own times is in no ledger of ours."""
    if ctx.call.caps is not None:
        message = "You have spending caps, and what a schedule starts counts for none of them. Nothing was changed."
        hint = "Ask the operator of this server to make the schedule, or run the Actor with call-actor."
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.PAYMENT, ctx.call.tool, message, hint=hint))
