"""Names of the tools of an Actor that is an MCP server."""

import hashlib
from collections.abc import Sequence

from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME

_SHORT_USER_CHARS = 8
_DIGEST_CHARS = 4


def mcp_tool_names(actor: str, tools: Sequence[str]) -> list[str]:
    """`user/name` and its tool `search` -> `user--name--search`.

    Where one of them is too long, all have the first eight characters of the user, and four digits of a digest of the
    whole name, before which they are cut.
    """
    user, _, name = actor.partition("/")
    user = user.replace(".", "-dot-")
    names = [f"{user}--{name}--{tool}" for tool in tools]
    if all(len(each) <= MAX_TOOL_NAME for each in names):
        return names
    short = user[:_SHORT_USER_CHARS].rstrip("-")
    return [_cut(f"{short}--{name}--{tool}", whole) for tool, whole in zip(tools, names, strict=True)]


def _cut(name: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"
