"""Names of direct Actor tools: `user/name` as a tool name that every model provider accepts."""

import hashlib

MAX_TOOL_NAME = 64
_DIGEST_CHARS = 8


def actor_tool_name(full_name: str) -> str:
    """`apify/rag-web-browser` -> `apify--rag-web-browser`. Longer names are cut and get a digest."""
    name = full_name.replace("/", "--").replace(".", "-dot-")
    if len(name) <= MAX_TOOL_NAME:
        return name
    digest = hashlib.sha256(full_name.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"


def normalised_actor(actor: str) -> str:
    """`user~name` and `user/name` are the same Actor; ids stay as they are."""
    return actor.strip().replace("~", "/", 1)
