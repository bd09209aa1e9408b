"""Widgets: self-contained pages, assembled on first use for the mode that shows them.

The Content-Security-Policy of a page allows only its own styles and scripts, by their digests, and pictures of hosts
that a mode names: data of a run cannot add a script, a style or a request.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from mcp.server.apps import APP_MIME_TYPE
from pydantic import JsonValue

from outlast.api.mcp.resource_definitions import Resource
from outlast.workflows.tools.framework.frozen_json import FrozenObject
from outlast.workflows.tools.openai.widgets import BATCH_WIDGET_URI, RUN_WIDGET_URI, SEARCH_WIDGET_URI

_POLICY_PLACE = "<!-- Content-Security-Policy -->"
_PARTS = ("theme.css", "host.js", "markdown.js")
_SURFACE_PLACE = "/* surface */"
_BLOCKS = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Surface:
    """Facts that a page needs of its mode: tools to call, their arguments, and hosts of pictures."""

    facts: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Read by the page as `SURFACE`."""
    picture_hosts: tuple[str, ...] = ()
    """Hosts from which the page may load pictures."""

    def script(self) -> str:
        """Return the line of script that passes the facts to the page."""
        facts_json = json.dumps({**self.facts, "pictureHosts": self.picture_hosts}, ensure_ascii=True)
        return f"const SURFACE = {facts_json.replace('<', chr(92) + 'u003c')};"


UI_MODE = Surface(
    FrozenObject(
        {
            "runTools": ["get-actor-run"],
            "runArguments": {},
            "logTool": "get-actor-log",
            "logLines": 60,
            "readsLogUnasked": True,
            "showsStorages": False,
            "firstMs": 2_000,
            "searchTool": "search-actors",
            "detailsTool": "fetch-actor-details-internal",
            "schemaTool": None,
        }
    )
)


@cache
def widget_page(file_name: str, surface: Surface = UI_MODE) -> str:
    """Return a page with its parts and its policy, as it is served. Raises `FileNotFoundError`."""
    page = _read_part(file_name).replace(_SURFACE_PLACE, surface.script())
    for part in _PARTS:
        page = page.replace(f"/* {part} */", _read_part(part))
    policy = content_policy(page, picture_hosts=surface.picture_hosts)
    return page.replace(_POLICY_PLACE, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')


def content_policy(page: str, *, picture_hosts: tuple[str, ...] = ()) -> str:
    """The strictest policy under which `page` works (CSP level 3): only its own blocks, by digest, and pictures."""
    digests: dict[str, list[str]] = {"style": [], "script": []}
    for kind, block in _BLOCKS.findall(page):
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        digests[kind].append(f"'sha256-{digest}'")
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(digests['script'])}",
            f"style-src {' '.join(digests['style'])}",
            *((f"img-src {' '.join(picture_hosts)}",) if picture_hosts else ()),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def widget_meta() -> dict[str, JsonValue]:
    """`_meta` of a widget's resource: it allows no network, in the form of MCP Apps and of older hosts."""
    nothing: list[JsonValue] = []
    return {
        "ui": {
            "csp": {"connectDomains": nothing, "resourceDomains": nothing, "frameDomains": nothing},
            "prefersBorder": False,
        },
        "openai/widgetCSP": {"connect_domains": nothing, "resource_domains": nothing},
        "openai/widgetPrefersBorder": False,
    }


def widget_resources() -> tuple[Resource, ...]:
    """Return the pages of the UI mode. Another mode has its own in its dialect (`Dialect.resources`)."""
    return tuple(
        Resource(
            uri=uri,
            name=file_name,
            title=title,
            description=description,
            mime_type=APP_MIME_TYPE,
            read=lambda _, file_name=file_name: widget_page(file_name),
            meta={**widget_meta(), "openai/widgetDescription": description},
            mode="openai",
        )
        for uri, file_name, title, description in (
            (
                SEARCH_WIDGET_URI,
                "search-results.html",
                "Actors",
                "Search results as cards: what each Actor does, its price, and its usage.",
            ),
            (
                RUN_WIDGET_URI,
                "actor-run.html",
                "Actor run",
                "A live run: status, progress, cost, rows so far, end of the log, and a button to abort it.",
            ),
            (
                BATCH_WIDGET_URI,
                "batch.html",
                "Batch",
                "A live batch: counts, rate, time left, cost, the latest results, and a button to cancel it.",
            ),
        )
    )


def _read_part(file_name: str) -> str:
    return files(__package__ or "outlast.api.mcp.widgets").joinpath(file_name).read_text(encoding="utf-8")
