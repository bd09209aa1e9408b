"""Names that callers give to what is theirs: ids, `user/name`, and bare names, which are the caller's own."""

import re

from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.core.actor_names import without_address
from outlast.workflows.tools.framework.ids import unquoted

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
