"""The widgets of the UI mode: two self-contained pages, put together and sealed by a policy when the server starts.

A page holds its styles and scripts. Its Content-Security-Policy allows exactly these, by their digests, and no network:
nothing that a run says can add a script, a style or a request.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from mcp.server.apps import APP_MIME_TYPE
from pydantic import JsonValue

from outlast.api.mcp.resources.resources import Resource
from outlast.workflows.tools.openai.widgets import RUN_WIDGET_URI, SEARCH_WIDGET_URI

_POLICY_PLACE = "<!-- Content-Security-Policy -->"
_PARTS = ("theme.css", "host.js")
_BLOCKS = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


@cache
def widget_page(file_name: str) -> str:
    """A page as it is served, with its parts and its policy in place. Raises `FileNotFoundError`."""
    page = _text_of(file_name)
    for part in _PARTS:
        page = page.replace(f"/* {part} */", _text_of(part))
    return page.replace(_POLICY_PLACE, f'<meta http-equiv="Content-Security-Policy" content="{content_policy(page)}">')


def content_policy(page: str) -> str:
    """The strictest policy under which `page` works (CSP level 3): its own blocks by digest, and nothing else."""
    digests: dict[str, list[str]] = {"style": [], "script": []}
    for kind, block in _BLOCKS.findall(page):
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        digests[kind].append(f"'sha256-{digest}'")
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(digests['script'])}",
            f"style-src {' '.join(digests['style'])}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def widget_meta() -> dict[str, JsonValue]:
    """`_meta` of a widget's resource: no network in the words of MCP Apps and of older hosts."""
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
    """The resources to serve in the UI mode."""
    return (
        _resource(
            SEARCH_WIDGET_URI,
            "search-results.html",
            title="Actors",
            description="Search results as cards: what each Actor does, what it costs, how much it is used.",
        ),
        _resource(
            RUN_WIDGET_URI,
            "actor-run.html",
            title="Actor run",
            description="A live run: status, progress, cost, rows so far, the end of its log, and a way to abort.",
        ),
    )


def _resource(uri: str, file_name: str, *, title: str, description: str) -> Resource:
    def read(_parts: Mapping[str, str]) -> str:
        return widget_page(file_name)

    about: JsonValue = description
    return Resource(
        uri=uri,
        name=file_name,
        title=title,
        description=description,
        mime_type=APP_MIME_TYPE,
        read=read,
        meta={**widget_meta(), "openai/widgetDescription": about},
        mode="openai",
    )


def _text_of(file_name: str) -> str:
    return files(__package__ or "outlast.api.mcp.widgets").joinpath(file_name).read_text(encoding="utf-8")
