"""The tools that this client offers: which hand-offs it can answer, and with what."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from outlast.api.cli.client_tools.browser_tabs import Wanted, answer_with_tabs
from outlast.api.cli.client_tools.devtools import JsonObject


@dataclass(frozen=True)
class ClientTool:
    """The client's part of one tool."""

    tool: str
    phase: str
    leaves: Callable[[JsonObject], str]
    """From what the server hands over to what leaves the machine, as the user is asked about it."""
    run: Callable[[JsonObject], Awaitable[JsonObject]]
    """From what the server hands over to the content of the answer; expected failures are in the content."""


def client_tools(browser_url: str) -> Mapping[tuple[str, str], ClientTool]:
    """Everything that is offered, by tool and phase."""

    async def list_tabs(parameters: JsonObject) -> JsonObject:
        return await answer_with_tabs(browser_url, parameters)

    def leaves(parameters: JsonObject) -> str:
        wanted = Wanted.by(parameters)
        kind = ("normal and incognito " if wanted.normal else "incognito ") if wanted.incognito else ""
        return f"title and address of every {kind}tab of the browser at {browser_url}"

    tools = (ClientTool("list_tabs", "collect_tabs", leaves, list_tabs),)
    return {(tool.tool, tool.phase): tool for tool in tools}
