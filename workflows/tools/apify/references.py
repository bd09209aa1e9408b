"""Names that callers give to what is theirs: ids, `user/name`, and bare names, which are the caller's own."""

import re

from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.framework.ids import unquoted

_ID = re.compile(r"[A-Za-z0-9]{17}")


async def platform_reference(ctx: ToolContext, written: object) -> str:
    """The reference that the platform's API takes: an id, or `user~name`."""
    reference = unquoted(written).replace("/", "~", 1)
    if "~" in reference or _ID.fullmatch(reference):
        return reference
    me = await ctx.platform.get("users", "me")
    return f"{me.get('username')}~{reference}"
