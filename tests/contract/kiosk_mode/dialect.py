"""How MCP is spoken at the kiosk: records are resources, links are signed, and there is a window."""

from collections.abc import Sequence

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.resource_definitions import PlatformAddress
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.registry import ToolSet
from tests.contract.kiosk_mode.window import RESOURCES


class KioskDialect(Dialect):
    addresses = (
        PlatformAddress(
            ("key-value-stores", "{storeId}", "records", "{recordKey}"),
            "get-key-value-store-record",
            "ware",
            description="A record.",
        ),
    )
    resources = RESOURCES
    signs_links = True

    def unknown_resource(self, uri: str, *, is_modern: bool) -> MCPError:
        del is_modern
        return MCPError(INVALID_PARAMS, f"The kiosk has no {uri}.")

    def absent_page(self, uri: str) -> str | None:
        return "The window is empty." if uri.startswith("ui://kiosk/") else None

    def unknown_prompt(self, name: str, known: Sequence[str]) -> MCPError:
        del known
        return MCPError(INVALID_PARAMS, f"The kiosk has no words for {name!r}.")

    def failure(self, result: ToolResult, tool: str, tools: ToolSet) -> ToolResult:
        told = TextContent(text=f"{tool} is sold out; there are {len(tools.tools)} wares.")
        return result.model_copy(update={"content": (*result.content, told)})
