"""The window of the kiosk: a tool that shows it, its page, and what those who pay read besides."""

from mcp.server.apps import APP_MIME_TYPE

from outlast.api.mcp.resource_definitions import Resource
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Category, NoArguments, tool
from tests.contract.kiosk_mode.coins import COINS

PAGE = "ui://kiosk/window"
PRICES = "file://prices.md"
_META = {"openai/outputTemplate": PAGE}


async def look(_ctx: HandlerContext, _arguments: NoArguments) -> str:
    return "What there is."


LOOK = tool("look").category(Category.UI).describe("Look into the window.").meta(**_META).server(look).build()
RESOURCES = (
    Resource(PAGE, "window", "Window", "The window.", APP_MIME_TYPE, lambda _: "<p>Wares</p>", _META, is_app=True),
    Resource(PRICES, "prices", "Prices", "What it costs.", "text/plain", lambda _: "One coin.", payment=COINS.name),
)
