"""Checks of the API's settings before it listens, beyond those that each setting makes by itself."""

import re

from outlast.api.settings import ApiSettings
from outlast.workflows.tools.framework.selection import TOOL_ALIASES
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.loader import base_tools
from outlast.workflows.tools.registry import MODES

_ACTOR = re.compile(r"[\w-]+[/~][\w.-]+|[A-Za-z0-9]{17}", re.ASCII)
"""`user/name`, `user~name`, or an Actor's id."""


def settings_problems(settings: ApiSettings) -> list[str]:
    """Return a line for each setting that prevents the start. Call it once extensions are loaded."""
    found = [
        refusal_to_listen(settings),
        _lost_credentials(settings),
        _mode_problem(settings),
        *_actor_problems(settings),
    ]
    if settings.mode in MODES:
        found += _tool_problems(settings)
    return [problem for problem in found if problem is not None]


def refusal_to_listen(settings: ApiSettings) -> str | None:
    """Explain why the API must not listen on its address; None if it may."""
    if settings.is_loopback or settings.has_credentials:
        return None
    return (
        f"OUTLAST_API_HOST={settings.api_host} would open the API to the network without any credential. "
        "Set OUTLAST_API_KEYS=name:key, OUTLAST_OAUTH_ISSUER, or OUTLAST_ACCEPT_APIFY_TOKENS=true, or bind 127.0.0.1."
    )


def _lost_credentials(settings: ApiSettings) -> str | None:
    """Explain why the API must not start: credentials were intended, but are missing. None if it may."""
    empty = settings.empty_credentials
    if not empty or settings.has_credentials:
        return None
    return (
        f"{' and '.join(empty)} {'are' if len(empty) > 1 else 'is'} set, but empty, and nothing else says who may "
        "call. Give the keys or the issuer, or unset the variable to let everybody on this machine call."
    )


def _mode_problem(settings: ApiSettings) -> str | None:
    if settings.mode in MODES:
        return None
    return f"OUTLAST_MODE={settings.mode} is not a mode; the modes are {', '.join(MODES)}."


def _actor_problems(settings: ApiSettings) -> list[str]:
    return [
        f"OUTLAST_DEFAULT_ACTORS: {actor!r} is not an Actor; write `user/name`."
        for actor in settings.actors
        if not _ACTOR.fullmatch(actor)
    ]


def _tool_problems(settings: ApiSettings) -> list[str]:
    known = {*Category, *base_tools(settings.mode).tools, *TOOL_ALIASES}
    return [
        f"OUTLAST_DEFAULT_TOOLS: {name!r} is not a category ({', '.join(Category)}), a tool, or an Actor (`user/name`)."
        for name in settings.selectors
        if name not in known and not _ACTOR.fullmatch(name)
    ]
