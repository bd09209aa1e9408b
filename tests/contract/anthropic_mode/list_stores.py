"""`get-key-value-store-list` in the throw-away mode, in place of the one that all other modes have."""

from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Category, NoArguments, tool

ANSWER = "<artifact>your stores</artifact>"


async def list_stores(_ctx: HandlerContext, _arguments: NoArguments) -> str:
    return ANSWER


LIST_STORES = (
    tool("get-key-value-store-list")
    .category(Category.STORAGE)
    .describe("Show the user's stores as an artifact.")
    .server(list_stores)
    .build()
)
