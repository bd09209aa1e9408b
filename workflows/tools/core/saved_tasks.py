"""Saved Actor tasks (Apify API v2, `actor-tasks`), and references to objects of callers.

A reference is an id, `user/name`, or a bare name, which belongs to the caller."""

import hashlib
import re
from typing import Any

from pydantic import Field

from outlast.activities.contracts import JsonObject
from outlast.workflows.handler_api.context import HandlerContext
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
    build: Id | None = Field(default=None, description="Build tag or number; the Actor's default without it.")

    def as_sent(self) -> JsonObject:
        """Return the given options under the platform's names."""
        given = self.model_dump(exclude_none=True)
        return {sent: given[name] for name, sent in _SENT.items() if name in given}

    @classmethod
    def read(cls, options: dict[str, Any]) -> "SavedOptions | None":
        """Return the platform's options under callers' names, unchecked; None if there are none."""
        found = {name: options[sent] for name, sent in _SENT.items() if options.get(sent) is not None}
        return cls.model_construct(**found) if found else None
