"""Contracts of the activities that talk to Actors which are MCP servers. Frozen and free of I/O imports."""

from pydantic import Field, JsonValue

from activities.models import Caller, Contract


class McpTool(Contract):
    """A tool as its server describes it (MCP `Tool`)."""

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, JsonValue] = Field(default_factory=dict)
    output_schema: dict[str, JsonValue] | None = None
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


class ListMcpToolsInput(Contract):
    """Order for the tools of an Actor that is an MCP server."""

    caller: Caller
    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")


class McpToolList(Contract):
    """The tools of an Actor that is an MCP server."""

    actor: str
    tools: tuple[McpTool, ...]


class CallMcpToolInput(Contract):
    """Order to call one tool of an Actor that is an MCP server, at most once."""

    caller: Caller
    actor: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="May hold sealed values.")


class McpAnswer(Contract):
    """What the tool answered (MCP `CallToolResult`), value for value."""

    content: tuple[dict[str, JsonValue], ...] = ()
    structured: dict[str, JsonValue] | None = None
    is_error: bool = False
    meta: dict[str, JsonValue] = Field(default_factory=dict)
