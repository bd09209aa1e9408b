"""Names of direct Actor tools: `user/name` as a tool name that every model provider accepts."""

import hashlib
import re

from outlast.workflows.tools.framework.ids import unquoted

MAX_TOOL_NAME = 64
_DIGEST_CHARS = 8
_MAX_GUESSES = 6
"""Each is a look-up on the platform when the tool is not known."""


def actor_tool_name(full_name: str) -> str:
    """`apify/rag-web-browser` -> `apify--rag-web-browser`. Longer names are cut and get a digest."""
    name = full_name.replace("/", "--").replace(".", "-dot-")
    if len(name) <= MAX_TOOL_NAME:
        return name
    digest = hashlib.sha256(full_name.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"


def normalised_actor(actor: str) -> str:
    """`user~name` and `user/name` are the same Actor; ids stay as they are.

    Quotes that models put around names are removed, so that the rules and the start see the same name.
    """
    return unquoted(actor).replace("~", "/", 1)


def split_actor_tool(actor: str) -> tuple[str, str | None]:
    """`user/name:tool` names a tool of an Actor that is an MCP server; the tool is None for an Actor alone."""
    name, _, tool = normalised_actor(actor).partition(":")
    return name, tool or None


def possible_servers(tool_name: str) -> tuple[str, ...]:
    """Actors that a proxied tool of this name may belong to, the longest name first.

    `user--my-server-search` may be `search` of `user/my-server` or `server-search` of `user/my`.
    """
    user, separator, rest = tool_name.replace("-dot-", ".").partition("--")
    if not separator or not user:
        return ()
    parts = rest.split("-")
    ends = range(len(parts) - 1, 0, -1)
    return tuple(f"{user}/{'-'.join(parts[:end])}" for end in ends)[:_MAX_GUESSES]


def proxied_tool_name(full_name: str, tool: str) -> str:
    """`user/name` and its tool `search` -> `user--name-search`, in the characters that every client accepts.

    Longer names are cut and get a digest, as do names in which a character had to be replaced.
    """
    plain = f"{actor_tool_name(full_name)}-{tool}"
    name = re.sub(r"[^a-zA-Z0-9_-]", "-", plain)
    if name == plain and len(name) <= MAX_TOOL_NAME:
        return name
    digest = hashlib.sha256(f"{full_name}:{tool}".encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"
