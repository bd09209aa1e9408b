"""MCP over standard input and output: one connection and one caller, served as over HTTP."""

from dataclasses import dataclass, field

from mcp.server.stdio import stdio_server
from pydantic import SecretStr

from outlast.api.mcp.server import McpServer
from outlast.api.mcp.widgets import widget_resources
from outlast.api.services import Services
from outlast.workflows.tools.loader import Selection


@dataclass(frozen=True)
class LocalConnection:
    """The only connection of a stdio process: its selection of tools, and the credential of its caller."""

    selection: Selection = field(default_factory=Selection)
    token: SecretStr | None = None


async def serve_stdio(services: Services, local: LocalConnection) -> None:
    """Serve until the client closes standard input. Raises `Unauthenticated` for an invalid credential, before reading.

    Nothing else may write to standard output meanwhile.
    """
    caller = await services.callers.resolve(local.token)
    server = McpServer(services, selection=local.selection, caller=caller, widgets=widget_resources()).server
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
