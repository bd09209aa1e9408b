"""Saved tasks and schedules of the platform: reads and changes that modes share."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import Field, JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.core.actor_names import without_address
from outlast.workflows.tools.framework.ids import Id, unquoted
from outlast.workflows.tools.framework.tool import Arguments

TASKS = "actor-tasks"
INPUT = ("input",)
"""Places of a saved task with values that may be secret."""
_NAME_CHARS, _DIGEST_CHARS = 50, 8


async def saved_task(ctx: HandlerContext, written: object) -> JsonObject:
    """Read the task. Raises `ToolError` if the caller has none of this id or name."""
    return await ctx.platform.get(TASKS, await platform_reference(ctx, written))


async def create_saved_task(
    ctx: HandlerContext, actor: object, fields: JsonObject, *, hidden: tuple[str, ...] = INPUT
) -> JsonObject:
    """Save a task once, also if attempts fail. Returns it without the places `hidden`.

    The default name is the same in every attempt of this call.
    """
    actor_id, full_name = await actor_of(ctx, await platform_reference(ctx, actor))
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    name = f"{full_name.partition('/')[2][:_NAME_CHARS]}-{digest}"
    body: JsonObject = {"actId": actor_id, "name": name, **fields}
    found_at = f"{await own_username(ctx)}~{body['name']}"
    return await ctx.platform_writes.create(TASKS, body, found_at=found_at, hidden=hidden)


async def change_saved_task(
    ctx: HandlerContext, written: object, fields: JsonObject, *, hidden: tuple[str, ...] = INPUT
) -> JsonObject:
    """Change only these fields. Returns the task without the places `hidden`."""
    return await ctx.platform_writes.update(TASKS, await platform_reference(ctx, written), fields, hidden=hidden)


async def delete_saved_task(ctx: HandlerContext, written: object) -> JsonObject:
    """Delete a task, and return its id and name. Its runs stay."""
    found = await ctx.platform.part(TASKS, await platform_reference(ctx, written), members=("id", "name"))
    await ctx.platform_writes.delete(TASKS, str(found.get("id")))
    return found


_ID = re.compile(r"[A-Za-z0-9]{17}")


async def platform_reference(ctx: HandlerContext, written: object) -> str:
    """Return the reference for the platform's API: an id, or `user~name`."""
    reference = without_address(unquoted(written)).replace("/", "~", 1)
    if "~" in reference or _ID.fullmatch(reference):
        return reference
    return f"{await own_username(ctx)}~{reference}"


async def own_username(ctx: HandlerContext) -> str:
    """Read only the name of the caller's account: the same object has the password for proxies."""
    me = await ctx.platform.part("users", "me", members=("username",))
    return str(me.get("username"))


async def actor_of(ctx: HandlerContext, reference: str) -> tuple[str, str]:
    """Read the id and the name `user/name` of an Actor. Raises `ToolError` if the caller cannot access it."""
    actor = await ctx.platform.part("acts", reference, members=("id", "username", "name"))
    return str(actor.get("id")), f"{actor.get('username')}/{actor.get('name')}"


_SENT = {"build": "build", "timeout": "timeoutSecs", "memory": "memoryMbytes"}


class SavedOptions(Arguments):
    """Options of later runs (Apify API v2, options of a task, and of a schedule's action)."""

    memory: int | None = Field(
        default=None, ge=128, le=32_768, description="Memory in megabytes: a power of two from 128 to 32768."
    )
    timeout: int | None = Field(default=None, ge=0, description="Maximum duration of a run, in seconds; 0: none.")
    build: Id | None = Field(default=None, description="Build tag or number. Default: that of the Actor.")

    def as_sent(self) -> JsonObject:
        """Return the given options under the platform's names."""
        given = self.model_dump(exclude_none=True)
        return {sent: given[name] for name, sent in _SENT.items() if name in given}

    @classmethod
    def read(cls, options: dict[str, Any]) -> "SavedOptions | None":
        """Return the platform's options under callers' names, unchecked; None if there are none."""
        found = {name: options[sent] for name, sent in _SENT.items() if options.get(sent) is not None}
        return cls.model_construct(**found) if found else None


SCHEDULES = "schedules"
INPUTS = ("actions/*/input", "actions/*/runInput")
"""Places of a schedule with values that may be secret."""
RUN_ACTOR, RUN_TASK = "RUN_ACTOR", "RUN_ACTOR_TASK"
OPTIONS = ("build", "timeoutSecs", "memoryMbytes", "restartOnError")
_JSON = "application/json; charset=utf-8"
MAX_OF_A_KIND = 10
INPUT_TEXTS = ("actions/*/runInput/body",)
"""The API takes an Actor's input as a text, which is made when the request is sent: until then it is encrypted."""


@dataclass(frozen=True)
class ArgumentNames:
    """A mode's names of the arguments that select the Actor or task, for errors."""

    actor: str
    task: str


@dataclass(frozen=True)
class ScheduledRun:
    """An action of a schedule: an Actor or a saved task, as the caller has named it, with its options."""

    actor: str | None = None
    task: str | None = None
    input: JsonValue = None
    has_input: bool = False
    options: JsonObject = field(default_factory=dict[str, JsonValue])
    """The given ones of `OPTIONS`, under the platform's names."""
    names: ArgumentNames = ArgumentNames("actorId", "taskId")


async def schedule(ctx: HandlerContext, written: object) -> JsonObject:
    """Read the schedule. Raises `ToolError` if the caller has none of this id or name."""
    return await ctx.platform.get(SCHEDULES, await platform_reference(ctx, written))


async def create_schedule(
    ctx: HandlerContext, fields: JsonObject, runs: Sequence[ScheduledRun], *, hidden: tuple[str, ...] = INPUTS
) -> JsonObject:
    """Create a schedule once, also if attempts fail. Returns it without the places `hidden`.

    The default name is the same in every attempt of this call.
    """
    _refuse_uncounted(ctx)
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    defaults: JsonObject = {"name": f"schedule-{digest}", "timezone": "UTC", "isEnabled": True, "isExclusive": True}
    _check(ctx, runs)
    body: JsonObject = {**defaults, **fields, "actions": [*await _actions(ctx, runs)]}
    found_at = f"{await own_username(ctx)}~{body['name']}"
    return await ctx.platform_writes.create(SCHEDULES, body, found_at=found_at, texts=INPUT_TEXTS, hidden=hidden)


async def change_schedule(
    ctx: HandlerContext,
    written: object,
    fields: JsonObject,
    runs: Sequence[ScheduledRun] | None,
    *,
    hidden: tuple[str, ...] = INPUTS,
) -> JsonObject:
    """Change these fields, and the actions if given. Returns the schedule without the places `hidden`."""
    if fields.get("isEnabled") or "cronExpression" in fields or runs is not None:
        _refuse_uncounted(ctx)
    _check(ctx, runs or ())
    reference = await platform_reference(ctx, written)
    body: JsonObject = fields if runs is None else {**fields, "actions": [*await _actions(ctx, runs)]}
    return await ctx.platform_writes.update(SCHEDULES, reference, body, texts=INPUT_TEXTS, hidden=hidden)


async def delete_schedule(ctx: HandlerContext, written: object) -> JsonObject:
    """Delete a schedule, and return its id and name. Runs that it has started continue."""
    found = await ctx.platform.part(SCHEDULES, await platform_reference(ctx, written), members=("id", "name"))
    await ctx.platform_writes.delete(SCHEDULES, str(found.get("id")))
    return found


async def _actions(ctx: HandlerContext, runs: Sequence[ScheduledRun]) -> list[JsonObject]:
    return [as_sent(run, await _target(ctx, run)) for run in runs]


async def _target(ctx: HandlerContext, run: ScheduledRun) -> str:
    """Read the id of the Actor or saved task. Raises `ToolError`, which names it, if it does not exist."""
    collection, written = ("actor-tasks", run.task) if run.task else ("acts", run.actor)
    try:
        found = await ctx.platform.part(collection, await platform_reference(ctx, written), members=("id",))
    except ToolError as error:
        if error.envelope.category is not ErrorCategory.NOT_FOUND:
            raise
        message = f"{'Task' if run.task else 'Actor'} {written} was not found."
        raise ToolError(error.envelope.model_copy(update={"message": message})) from error
    return str(found.get("id"))


def _check(ctx: HandlerContext, runs: Sequence[ScheduledRun]) -> None:
    """Raise `ToolError` for actions that the platform would reject."""
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


def _refuse_uncounted(ctx: HandlerContext) -> None:
    """Raise `ToolError` for a caller with spending limits, in which runs by the platform's schedules do not count."""
    if ctx.call.caps is not None:
        message = "You have spending caps, and what a schedule starts counts for none of them. Nothing was changed."
        hint = "Ask the operator of this server to make the schedule, or run the Actor with call-actor."
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.PAYMENT, ctx.call.tool, message, hint=hint))


def problem_of(runs: Sequence[ScheduledRun]) -> str | None:
    """Return the reason for which the platform would reject these actions, or None."""
    for number, run in enumerate(runs):
        if bool(run.actor) == bool(run.task):
            return f"/actions/{number}: give {run.names.actor} or {run.names.task}, one of them."
        if run.task and run.options:
            return f"/actions/{number}: options of a run go with {run.names.actor} only; a task has its own."
    counts = {"an Actor": sum(bool(run.actor) for run in runs), "a task": sum(bool(run.task) for run in runs)}
    for kind, count in counts.items():
        if count > MAX_OF_A_KIND:
            return f"/actions: at most {MAX_OF_A_KIND} may run {kind}."
    return None


def as_sent(run: ScheduledRun, target: str) -> JsonObject:
    """Return an action for the API; `target` is the id of its Actor or task."""
    if run.task:
        saved: JsonObject = {"type": RUN_TASK, "actorTaskId": target}
        return {**saved, "input": run.input} if run.has_input else saved
    sent: JsonObject = {"type": RUN_ACTOR, "actorId": target}
    if run.has_input:
        sent["runInput"] = {"body": run.input, "contentType": _JSON}
    return {**sent, "runOptions": run.options} if run.options else sent


def as_read(schedule: JsonObject) -> list[ScheduledRun]:
    """Return the actions of a schedule of the API. An input that is not JSON is text."""
    actions = schedule.get("actions")
    return [_run(action) for action in actions if isinstance(action, dict)] if isinstance(actions, list) else []


def _run(action: JsonObject) -> ScheduledRun:
    if action.get("type") == RUN_TASK:
        given = action.get("input")
        return ScheduledRun(task=str(action.get("actorTaskId")), input=given, has_input=given is not None)
    given, options = _input_of(action.get("runInput")), cast("JsonObject", action.get("runOptions") or {})
    kept: JsonObject = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    return ScheduledRun(str(action.get("actorId")), input=given, has_input=given is not None, options=kept)


def _input_of(written: JsonValue) -> JsonValue:
    body = written.get("body") if isinstance(written, dict) else None
    if not isinstance(body, str):
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body
