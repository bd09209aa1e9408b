"""The tools that this client offers: its own one, and those of the user."""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from outlast.cli.client_tools.browser_tabs import Wanted, answer_with_tabs
from outlast.cli.client_tools.devtools import JsonObject
from outlast.cli.errors import BadInput
from outlast.client import ClientTool, OpenHandoff

Offered = Mapping[tuple[str, str], ClientTool]
"""Client tools by the names of tool and phase."""


def offered(browser_url: str, own: Iterable[ClientTool] = ()) -> Offered:
    """Everything that is offered. Raises `BadInput` when two client tools answer the same phase."""
    tools: dict[tuple[str, str], ClientTool] = {}
    for tool in (_list_tabs(browser_url), *own):
        if tools.setdefault((tool.tool, tool.phase), tool) is not tool:
            raise BadInput(f"Two client tools answer the phase {tool.phase!r} of {tool.tool}: keep one of them.")
    return tools


def _list_tabs(browser_url: str) -> ClientTool:
    async def run(handoff: OpenHandoff) -> JsonObject:
        return await answer_with_tabs(browser_url, handoff.parameters)

    def sends(parameters: Mapping[str, JsonValue]) -> str:
        wanted = Wanted.by(parameters)
        kind = ("normal and incognito " if wanted.normal else "incognito ") if wanted.incognito else ""
        return f"title and address of every {kind}tab of the browser at {browser_url}"

    return ClientTool("list_tabs", "collect_tabs", run, sends)
