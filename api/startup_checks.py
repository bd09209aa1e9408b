"""Checks of the API's settings before it listens, beyond those that each setting makes by itself."""

import re
from collections.abc import Collection, Iterable, Iterator

from outlast.api.catalog.builtin_tools import OFF, ON
from outlast.api.settings import ApiSettings, split_names
from outlast.workflows.tools.framework.selection import TAG, TOOL_ALIASES
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.registry import MODES, base_tools

_ACTOR = re.compile(r"[\w-]+[/~][\w.-]+|[A-Za-z0-9]{17}", re.ASCII)
"""`user/name`, `user~name`, or an Actor's id."""


def settings_problems(settings: ApiSettings) -> list[str]:
    """Return a line for each setting that prevents the start. Call it once extensions are loaded."""
    return list(_problems(settings))


def _problems(settings: ApiSettings) -> Iterator[str]:
    if not settings.is_loopback and not settings.has_credentials:
        yield (
            f"OUTLAST_API_HOST={settings.api_host} would open the API to the network without any credential. "
            "Set OUTLAST_API_KEYS=name:key, OUTLAST_OAUTH_ISSUER, or OUTLAST_ACCEPT_APIFY_TOKENS=true, or bind "
            "127.0.0.1."
        )
    empty = settings.empty_credentials
    if empty and not settings.has_credentials:
        yield (
            f"{' and '.join(empty)} {'are' if len(empty) > 1 else 'is'} set, but empty, and nothing else defines who "
            f"may call. Give the keys or the issuer, or unset the variable to let everybody on this machine call."
        )
    if settings.mode not in MODES:
        yield f"OUTLAST_MODE={settings.mode} is not a mode; the modes are {', '.join(MODES)}."
    for actor in settings.actors:
        if not _ACTOR.fullmatch(actor):
            yield f"OUTLAST_DEFAULT_ACTORS: {actor!r} is not an Actor; write `user/name`."
    if settings.mode not in MODES:
        return
    tools = base_tools(settings.mode).tools
    known = {*Category, *tools, *TOOL_ALIASES}
    tags = {f"{TAG}{tag}" for tool in tools.values() for tag in tool.tags}
    yield from _unknown("OUTLAST_DEFAULT_TOOLS", settings.selectors, known | tags, "a tag of a tool (`tag:name`), ")
    yield from _unknown("OUTLAST_BUILTIN_TOOLS", _chosen(settings.builtin_tools), known)


def _unknown(variable: str, names: Iterable[str], known: Collection[str], others: str = "") -> Iterator[str]:
    for name in names:
        if name not in known and not _ACTOR.fullmatch(name):
            kinds = f"a category ({', '.join(Category)}), {others}a tool, or an Actor (`user/name`)"
            yield f"{variable}: {name!r} is not {kinds}."


def _chosen(builtin_tools: str) -> tuple[str, ...]:
    names = split_names(builtin_tools)
    return () if names in ((ON,), (OFF,)) else names
