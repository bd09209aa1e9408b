"""Names of Actors as they are written, and of direct Actor tools, which every model provider accepts."""

import hashlib
import re
from urllib.parse import unquote

from outlast.workflows.tools.framework.ids import unquoted

MAX_TOOL_NAME = 64
_DIGEST_CHARS = 8
_ADDRESS = re.compile(
    r"(?:https?://)?(?:(?P<host>(?:www\.|console\.|api\.)?apify\.com)/(?P<path>[^?#\s]*)"
    r"|(?P<standby>[a-z0-9-]+)\.apify\.actor(?:/[^?#\s]*)?)(?:[?#]\S*)?",
    re.IGNORECASE,
)
_COLLECTIONS = frozenset({"actors", "acts", "actor-tasks", "tasks"})
"""In addresses of the console (`actors/ID`, `actors/tasks/ID`) and of the API (`v2/acts/user~name`)."""
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.~-]*(?:/[A-Za-z0-9][\w.-]*(?::[\w.-]+)?)?", re.ASCII)
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
    """`user~name`, `user/name` and the addresses of its pages are the same Actor; ids stay as they are.

    Quotes that models put around names are removed, so that the rules and the start see the same name.
    """
    return without_address(unquoted(actor)).replace("~", "/", 1)


def without_address(written: str) -> str:
    """The Actor (or saved task) whose page, console page, API or standby address this is; any other text as it is.

    `https://apify.com/user/name/api?fpr=x` -> `user/name`, `https://console.apify.com/actors/ID/input` -> `ID`.
    """
    found = _ADDRESS.fullmatch(written)
    if found is None:
        return written
    if found["standby"]:
        return found["standby"].replace("--", "/", 1)
    path = [unquote(part) for part in found["path"].split("/") if part]
    reference = _reference_in(found["host"].lower(), path)
    return reference if reference is not None and _REFERENCE.fullmatch(reference) else written


def _reference_in(host: str, path: list[str]) -> str | None:
    if host in ("apify.com", "www.apify.com"):
        return "/".join(path[:2]) if len(path) > 1 else None
    kinds = [index for index, part in enumerate(path) if part in _COLLECTIONS]
    rest = path[kinds[-1] + 1 :] if kinds else []
    return rest[0] if rest else None


def split_actor_tool(actor: str) -> tuple[str, str | None]:
    """`user/name:tool` names a tool of an Actor that is an MCP server; the tool is None for an Actor alone."""
    whole = normalised_actor(actor)
    if "://" in whole:  # An address of something else: no Actor has this name.
        return whole, None
    name, _, tool = whole.partition(":")
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
