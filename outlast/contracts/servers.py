"""MCP servers in the operator's file, as admins see them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from outlast.contracts.base import Open, Response, absent


class McpServer(Response):
    """One server of the file."""

    name: str
    kind: Open[Literal["stdio", "http"]]
    state: Open[Literal["unknown", "up", "down"]] = Field(
        description="As of the last attempt to list its tools; `unknown` before the first."
    )
    error: str | None = Field(default=None, description="Why the last attempt failed.")
    since: datetime | None = Field(default=None, description="When it came into this state.")
    tools: Annotated[int, absent(0)] = Field(description="Tools of its last list.")
    sessions: Annotated[int, absent(0)] = Field(description="Open sessions on all workers.")
    restarts: Annotated[int, absent(0)] = Field(description="Lost processes and connections that were opened again.")


class McpServerTool(Response):
    """A tool of a server, and the rules for its calls."""

    name: str = Field(description="Name of the tool on the server.")
    called: str = Field(description="Name of the tool for callers, such as `git__git_log`.")
    description: str = ""
    read_only: Annotated[bool, absent(False)]
    destructive: Annotated[bool, absent(True)]
    session: str = Field(description="Calls that share a session; `conversation or caller` by default.")
    repeats_safely: Annotated[bool, absent(False)] = Field(
        description="Whether a call whose answer was lost is sent again."
    )
    idempotency_argument: str | None = Field(default=None, description="Argument that gets the id of the task.")
    verified_by: str | None = Field(
        default=None, description="Tool that decides whether a call was executed whose answer was lost."
    )
    needs_approval: Annotated[bool, absent(False)]


class McpServerDetails(McpServer):
    """One server with its tools. Tools that `only` and `except` leave out are not among them."""

    protocol: str | None = Field(default=None, description="Revision of MCP that it speaks.")
    instructions: str | None = None
    listed_at: datetime | None = Field(default=None, description="When its tools were listed.")
    offered: Annotated[tuple[McpServerTool, ...], absent(())]
    notes: Annotated[tuple[str, ...], absent(())] = Field(description="Tools that cannot be used, and why.")


class McpServerList(Response):
    """The servers of the file, in its order."""

    servers: Annotated[tuple[McpServer, ...], absent(())]
    problem: str | None = Field(
        default=None, description="Why the file is not used as it is now; the servers are those of its last good state."
    )
