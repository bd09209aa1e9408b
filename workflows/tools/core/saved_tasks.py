"""Saved Actor tasks (an Actor with an input and options under a name), and references to what callers own.

Fields are those of the platform's API (Apify API v2, `actor-tasks`); each mode defines its arguments and answers.
A reference is an id, `user/name`, or a bare name, which is the caller's own."""

import hashlib
import re
from typing import Any

from pydantic import Field

from outlast.activities.contracts import JsonObject
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.core.actor_names import without_address
from outlast.workflows.tools.framework.ids import Id, unquoted
from outlast.workflows.tools.framework.tool import Arguments

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


_ID = re.compile(r"[A-Za-z0-9]{17}")


async def platform_reference(ctx: ToolContext, written: object) -> str:
    """The reference that the platform's API takes: an id, or `user~name`."""
    reference = without_address(unquoted(written)).replace("/", "~", 1)
    if "~" in reference or _ID.fullmatch(reference):
        return reference
    return f"{await own_username(ctx)}~{reference}"


async def own_username(ctx: ToolContext) -> str:
    """The name of the caller's account. Nothing else is read: the same object has the password for proxies."""
    me = await ctx.platform.part("users", "me", members=("username",))
    return str(me.get("username"))


async def actor_of(ctx: ToolContext, reference: str) -> tuple[str, str]:
    """The id of an Actor, and its full name `user/name`. Raises `ToolError` when the caller can see no such Actor."""
    actor = await ctx.platform.part("acts", reference, members=("id", "username", "name"))
    return str(actor.get("id")), f"{actor.get('username')}/{actor.get('name')}"


_SENT = {"build": "build", "timeout": "timeoutSecs", "memory": "memoryMbytes"}


class SavedOptions(Arguments):
    """Options of runs that somebody starts later (Apify API v2, options of a task, and of a schedule's action)."""

    memory: int | None = Field(
        default=None, ge=128, le=32_768, description="Memory in megabytes: a power of two from 128 to 32768."
    )
    timeout: int | None = Field(default=None, ge=0, description="Maximum duration of a run, in seconds; 0: none.")
    build: Id | None = Field(default=None, description="Build tag or number; the Actor's default without it.")

    def as_sent(self) -> JsonObject:
        """Those that were given, under the platform's names."""
        given = self.model_dump(exclude_none=True)
        return {sent: given[name] for name, sent in _SENT.items() if name in given}

    @classmethod
    def read(cls, options: dict[str, Any]) -> "SavedOptions | None":
        """The platform's options as callers name them, unchecked; None when there are none of these."""
        found = {name: options[sent] for name, sent in _SENT.items() if options.get(sent) is not None}
        return cls.model_construct(**found) if found else None
