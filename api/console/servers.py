"""MCP servers of the operator's file, for admins."""

from outlast.api.console.framework import Context, Section, View
from outlast.api.errors import ServerNotFound

section = Section("MCP servers", scope="admin")


@section.page("servers", "servers.html", live=("list",))
async def servers(view: View) -> Context:
    """The servers with their states."""
    known = view.services.server_tools
    return {"servers": await known.statuses() if known else (), "problem": known.problem if known else None}


@section.page("servers/{name}", "server.html", live=("head",))
async def server(view: View) -> Context:
    """A server with its tools, and the rules for their calls."""
    known, name = view.services.server_tools, view.of_path("name")
    if known is None:
        raise ServerNotFound(f"There is no MCP server {name[:80]!r}: this installation has no servers file.")
    return {"server": await known.status(name), "tools": known.tools_of(name)}
