"""MCP servers in the operator's file, as admins see them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

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

    pinned: Annotated[bool, absent(False)] = Field(description="Whether the lock file has a record of it.")
    quarantined: Annotated[int, absent(0)] = Field(description="Tools that are not offered, see `quarantine`.")
    flagged: Annotated[int, absent(0)] = Field(description="Tools and instructions with suspicious text.")


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
    flags: Annotated[tuple[str, ...], absent(())] = Field(
        description="What is suspicious in its texts, such as hidden characters; a reason to look, not a verdict."
    )


class McpQuarantinedTool(Response):
    """A tool that is neither offered nor called."""

    name: str = Field(description="Name of the tool on the server.")
    called: str = Field(description="The name that it would have for callers.")
    reason: Open[Literal["changed", "new", "hidden"]] = Field(
        description="`changed` or `new`: since the server was pinned. `hidden`: its arguments have hidden characters."
    )
    description: str = Field(default="", description="As its server has it now, with escapes for what is not seen.")
    flags: Annotated[tuple[str, ...], absent(())]


class McpPinChange(Response):
    """A difference between a server and its pin."""

    kind: Open[Literal["changed", "new", "removed"]]
    part: Open[Literal["tool", "instructions", "package"]]
    tool: str | None = Field(default=None, description="Name of the tool on the server.")
    lines: Annotated[tuple[str, ...], absent(())] = Field(
        description="The difference of its texts, as lines that begin with `-`, `+` or a blank."
    )


class McpServerPin(Response):
    """What `outlast servers pin` records of a server, and how that differs from the lock file in force."""

    name: str
    listed: dict[str, JsonValue] = Field(description="The record of the server as it is now.")
    pinned: dict[str, JsonValue] | None = Field(default=None, description="Its record in the lock file.")
    changes: Annotated[tuple[McpPinChange, ...], absent(())] = Field(description="Empty without a record.")


class McpServerDetails(McpServer):
    """One server with its tools. Tools that `only` and `except` leave out are not among them."""

    protocol: str | None = Field(default=None, description="Revision of MCP that it speaks.")
    instructions: str | None = None
    listed_at: datetime | None = Field(default=None, description="When its tools were listed.")
    offered: Annotated[tuple[McpServerTool, ...], absent(())]
    quarantine: Annotated[tuple[McpQuarantinedTool, ...], absent(())]
    instruction_flags: Annotated[tuple[str, ...], absent(())] = Field(
        description="What is suspicious in its instructions for models."
    )
    package: str | None = Field(default=None, description="The package that its command runs, as far as it is known.")
    package_change: str | None = Field(default=None, description="How the package differs from the pinned one.")
    notes: Annotated[tuple[str, ...], absent(())] = Field(description="Tools that cannot be used, and why.")


class McpServerList(Response):
    """The servers of the file, in its order."""

    servers: Annotated[tuple[McpServer, ...], absent(())]
    problem: str | None = Field(
        default=None, description="Why the file is not used as it is now; the servers are those of its last good state."
    )
    lock_problem: str | None = Field(
        default=None, description="Why the lock file is not used as it is now; its previous pins stay in force."
    )
