"""An MCP server with everything beside tools: books are resources, and change. Made with the SDK, so that it speaks
both revisions of the protocol: `python library_server.py FOLDER [legacy]` over stdio, `app` over Streamable HTTP.

Two libraries have the resource `shared:///catalogue`.
"""

import base64
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

TEXT: dict[str, Any] = {"type": "object", "properties": {"title": {"type": "string"}, "text": {"type": "string"}}}
READS = types.ToolAnnotations(read_only_hint=True)
LARGE = "x" * 2_000_000
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 300_000).decode()


class Library:
    """The handlers. The books are files in `folder`; the desk is open in the process that opened it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = False
        self.bus = InMemorySubscriptionBus()

    async def tools(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        names = ["write", "open-desk", "cover", "shout", "visit", "roots", "wrong", *(["lend"] if self.desk else [])]
        kinds = {"write": None, "open-desk": None}
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    input_schema=TEXT,
                    annotations=kinds.get(name, READS),
                    output_schema={"type": "object", "required": ["pages"]} if name == "wrong" else None,
                )
                for name in names
            ]
        )

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        arguments = params.arguments or {}
        content: list[types.ContentBlock] = [types.TextContent(text="done")]
        structured: dict[str, Any] | None = None
        match params.name:
            case "write":
                book = self.folder / arguments["title"]
                is_new = not book.exists()
                book.write_text(arguments["text"])
                uri = f"book:///{book.name}"
                content.append(types.ResourceLink(uri=uri, name=book.name))
                if is_new:
                    await self.bus.publish(ResourcesListChanged())
                    await _told(ctx.session.send_resource_list_changed, ctx)
                else:
                    await self.bus.publish(ResourceUpdated(uri))
                    await _told(ctx.session.send_resource_updated, ctx, uri)
            case "open-desk":
                self.desk = True
                await self.bus.publish(ToolsListChanged())
                await self.bus.publish(PromptsListChanged())
                await _told(ctx.session.send_tool_list_changed, ctx)
                await _told(ctx.session.send_prompt_list_changed, ctx)
            case "cover":
                content = [types.ImageContent(data=PICTURE, mime_type="image/png"), types.TextContent(text="A cover.")]
            case "wrong":
                structured = {"sheets": 3}
            case _:
                pass
        return types.CallToolResult(content=content, structured_content=structured)

    async def resources(self, _ctx: Any, _params: Any) -> types.ListResourcesResult:
        books = [
            types.Resource(uri=f"book:///{book.name}", name=book.name, mime_type="text/plain")
            for book in sorted(self.folder.iterdir())
        ]
        shared = types.Resource(uri="shared:///catalogue", name="catalogue", title="All books")
        return types.ListResourcesResult(resources=[shared, *books])

    async def templates(self, _ctx: Any, _params: Any) -> types.ListResourceTemplatesResult:
        book = types.ResourceTemplate(uri_template="book:///{title}", name="book")
        secret = types.ResourceTemplate(uri_template="outlast://tasks/{title}", name="not Outlast's")
        return types.ListResourceTemplatesResult(resource_templates=[book, secret])

    async def read(self, _ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == "shared:///catalogue":
            text = "\n".join(sorted(book.name for book in self.folder.iterdir()))
        elif uri == "book:///large":
            text = LARGE
        elif uri.startswith("outlast://tasks/"):
            text = "no task"
        elif (book := self.folder / uri.removeprefix("book:///")).is_file():
            text = book.read_text()
        else:
            raise MCPError(-32002, f"There is no book {uri}.")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text)])

    async def subscribe(self, _ctx: Any, _params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def prompts(self, _ctx: Any, _params: Any) -> types.ListPromptsResult:
        title = types.PromptArgument(name="title", required=True)
        names = ["review", *(["recommend"] if self.desk else [])]
        return types.ListPromptsResult(prompts=[types.Prompt(name=name, arguments=[title]) for name in names])

    async def prompt(self, _ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        title = (params.arguments or {})["title"]
        link = types.ResourceLink(uri="shared:///catalogue", name="catalogue")
        return types.GetPromptResult(
            description=f"About {title}",
            messages=[
                types.PromptMessage(role="user", content=types.TextContent(text=f"Review {title}.")),
                types.PromptMessage(role="user", content=link),
            ],
        )

    async def complete(self, _ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        titles = [book.name for book in sorted(self.folder.iterdir()) if book.name.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=titles, has_more=False))

    def server(self) -> "Server[Any]":
        return _Everything(
            "library",
            on_list_tools=self.tools,
            on_call_tool=self.call,
            on_list_resources=self.resources,
            on_list_resource_templates=self.templates,
            on_read_resource=self.read,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.subscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
            on_list_prompts=self.prompts,
            on_get_prompt=self.prompt,
            on_completion=self.complete,
        )


class _Everything(Server[Any]):
    def get_capabilities(self, _options: Any = None, *more: Any, **named: Any) -> types.ServerCapabilities:
        options = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().get_capabilities(options, *more, **named)


async def _told(send: Any, ctx: Any, *arguments: Any) -> None:
    """Send a notification of 2025-11-25; later ones go to streams of `subscriptions/listen`."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await send(*arguments)


async def _without_discovery(reading: Any, writing: Any, passed: Any) -> None:
    """Pass on messages as a server does that has never heard of revisions without a handshake."""
    async with passed:
        async for item in reading:
            if getattr(item.message, "method", "") != "server/discover":
                await passed.send(item)
                continue
            error = types.ErrorData(code=-32601, message="Method not found")
            await writing.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error)))


def main() -> None:
    server = Library(Path(sys.argv[1])).server()

    async def serve() -> None:
        async with stdio_server() as (reading, writing), anyio.create_task_group() as group:
            messages: Any = reading
            if "legacy" in sys.argv:
                passed, messages = anyio.create_memory_object_stream[Any](0)
                group.start_soon(_without_discovery, reading, writing, passed)
            await server.run(messages, writing, server.create_initialization_options())

    anyio.run(serve)


def app() -> Any:
    """An application for an ASGI server; the folder is that of the variable LIBRARY."""
    return Library(Path(os.environ["LIBRARY"])).server().streamable_http_app()


if __name__ == "__main__":
    main()
