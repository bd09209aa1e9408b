"""Saved Actor tasks: an Actor with an input and options under a name. What all modes do with them.

Fields are those of the platform's API (Apify API v2, `actor-tasks`); what calls and answers look like is each mode's.
"""

import hashlib

from outlast.activities.contracts import JsonObject
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.core.platform_references import actor_of, own_username, platform_reference

TASKS = "actor-tasks"
INPUT = ("input",)
"""The places of a saved task whose values may be secret."""
_NAME_CHARS, _DIGEST_CHARS = 50, 8


async def saved_task(ctx: ToolContext, written: object) -> JsonObject:
    """The task as it is. Raises `ToolError` when the caller has none of this id or name."""
    return await ctx.platform.get(TASKS, await platform_reference(ctx, written))


async def create_saved_task(
    ctx: ToolContext, actor: object, fields: JsonObject, *, hidden: tuple[str, ...] = INPUT
) -> JsonObject:
    """Save a task once, whatever fails in between; the task without what is `hidden`.

    Without a name it gets one that is the same in every attempt.
    """
    actor_id, full_name = await actor_of(ctx, await platform_reference(ctx, actor))
    body: JsonObject = {"actId": actor_id, "name": _name_for(ctx, full_name), **fields}
    found_at = f"{await own_username(ctx)}~{body['name']}"
    return await ctx.platform_writes.create(TASKS, body, found_at=found_at, hidden=hidden)


async def change_saved_task(
    ctx: ToolContext, written: object, fields: JsonObject, *, hidden: tuple[str, ...] = INPUT
) -> JsonObject:
    """Change these fields and nothing else; the task as it is then, without what is `hidden`."""
    return await ctx.platform_writes.update(TASKS, await platform_reference(ctx, written), fields, hidden=hidden)


async def delete_saved_task(ctx: ToolContext, written: object) -> JsonObject:
    """Remove a task for good; its id and its name. What it has run stays."""
    found = await ctx.platform.part(TASKS, await platform_reference(ctx, written), members=("id", "name"))
    await ctx.platform_writes.delete(TASKS, str(found.get("id")))
    return found


def _name_for(ctx: ToolContext, actor: str) -> str:
    """The name of a task that was given none: the same in every attempt of this call, and of no other."""
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{actor.partition('/')[2][:_NAME_CHARS]}-{digest}"
