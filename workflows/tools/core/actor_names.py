"""Names of Actors in calls, and names of direct Actor tools that every model provider accepts."""

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
"""Parts of addresses of the console (`actors/ID`, `actors/tasks/ID`) and of the API (`v2/acts/user~name`)."""
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.~-]*(?:/[A-Za-z0-9][\w.-]*(?::[\w.-]+)?)?", re.ASCII)
_MAX_GUESSES = 6
"""Most look-ups on the platform for an unknown tool."""


def actor_tool_name(full_name: str, *, digest_chars: int = _DIGEST_CHARS) -> str:
    """Return `apify--rag-web-browser` for `apify/rag-web-browser`. Longer names are cut and get a digest."""
    name = full_name.replace("/", "--").replace(".", "-dot-")
    return name if len(name) <= MAX_TOOL_NAME else cut_name(name, full_name, digest_chars)


def cut_name(name: str, whole: str, digest_chars: int = _DIGEST_CHARS, *, limit: int = MAX_TOOL_NAME) -> str:
    """Cut `name` to `limit` characters, with a digest of `whole` at its end."""
    digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()[:digest_chars]
    return f"{name[: limit - digest_chars - 1]}-{digest}"


def normalised_actor(actor: str) -> str:
    """Return `user/name` for `user~name` and the addresses of its pages; ids stay unchanged.

    Quotes that models put around names are removed, so that the rules and the start use the same name.
    """
    return without_address(unquoted(actor)).replace("~", "/", 1)


def without_address(written: str) -> str:
    """Return the Actor (or saved task) of a page, console page, API or standby address; other texts unchanged.

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
    """Split `user/name:tool`, a tool of an Actor that is an MCP server. The tool is None for an Actor alone."""
    whole = normalised_actor(actor)
    if "://" in whole:  # Another address: no Actor has this name.
        return whole, None
    name, _, tool = whole.partition(":")
    return name, tool or None


def possible_servers(tool_name: str) -> tuple[str, ...]:
    """Return the Actors that may have a proxied tool of this name, the longest name first.

    `user--my-server-search` may be `search` of `user/my-server` or `server-search` of `user/my`.
    """
    user, separator, rest = tool_name.replace("-dot-", ".").partition("--")
    if not separator or not user:
        return ()
    parts = rest.split("-")
    ends = range(len(parts) - 1, 0, -1)
    return tuple(f"{user}/{'-'.join(parts[:end])}" for end in ends)[:_MAX_GUESSES]


def proxied_tool_name(full_name: str, tool: str) -> str:
    """Return `user--name-search` for the tool `search` of `user/name`, in characters that every client accepts.

    Longer names, and names with a replaced character, are cut and get a digest.
    """
    plain = f"{actor_tool_name(full_name)}-{tool}"
    name = re.sub(r"[^a-zA-Z0-9_-]", "-", plain)
    if name == plain and len(name) <= MAX_TOOL_NAME:
        return name
    return cut_name(name, f"{full_name}:{tool}")
