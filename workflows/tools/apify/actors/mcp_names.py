"""Names of the tools of an Actor that is an MCP server."""

import hashlib
from collections.abc import Sequence

from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME

_SHORT_USER_CHARS = 8
_DIGEST_CHARS = 4


def mcp_tool_names(actor: str, tools: Sequence[str]) -> list[str]:
    """`user/name` and its tool `search` -> `user--name--search`.

    Where one of them is too long, all have the first eight characters of the user; what is still too long is cut and
    gets four digits of a digest.
    """
    user, _, name = actor.replace(".", "-dot-").partition("/")
    names = [f"{user}--{name}--{tool}" for tool in tools]
    if any(len(each) > MAX_TOOL_NAME for each in names):
        names = [f"{user[:_SHORT_USER_CHARS]}--{name}--{tool}" for tool in tools]
    return [_cut(each, f"{actor}:{tool}") for each, tool in zip(names, tools, strict=True)]


def _cut(name: str, full_name: str) -> str:
    if len(name) <= MAX_TOOL_NAME:
        return name
    digest = hashlib.sha256(full_name.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"
