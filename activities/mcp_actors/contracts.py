"""Contracts of the activities that call Actors which are MCP servers."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract
from outlast.activities.spending.contracts import SpendingCaps

NOT_CONNECTED = "Failed to connect to MCP server"
"""The beginning of the message if the server was not reached: its tool was not called."""
NOT_CALLED = "Failed to call MCP tool"
"""The beginning of the message if the server was reached."""


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
    """Input of `list_mcp_tools`."""

    caller: Caller
    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")


class McpToolList(Contract):
    """The tools of an Actor that is an MCP server."""

    actor: str
    tools: tuple[McpTool, ...]
    notes: tuple[str, ...] = Field(default=(), description="Tools of the server that cannot be used, and why.")


class CallMcpToolInput(Contract):
    """Input of `call_mcp_tool`: calls one tool of an Actor that is an MCP server, at most once."""

    caller: Caller
    actor: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="May hold encrypted values.")
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")


class CallProgress(Contract):
    """The progress that a proxied tool reports (MCP `notifications/progress`)."""

    done: float
    total: float | None = None
    message: str = Field(description="In the server's words, at most 500 characters.")


class CallPhase(Contract):
    """Heartbeat details of `call_mcp_tool`, for the next attempt and for readers of the task's progress."""

    sent: bool
    progress: CallProgress | None = None


class RelayedQuestion(Contract):
    """A question of the server while its tool runs; it goes to the caller of the tool."""

    key: str = Field(description="Distinct within the call.")
    method: Literal["elicitation/create", "sampling/createMessage"]
    message: str
    requested_schema: dict[str, JsonValue] = Field(default_factory=dict)
    params: dict[str, JsonValue] = Field(default_factory=dict, description="Parameters of `sampling/createMessage`.")


class RelayedAnswer(Contract):
    """The answer to a `RelayedQuestion`. `cancel` also means that no answer came in time."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, JsonValue] = Field(default_factory=dict)


RELAY_UPDATE = "relay_question"
"""The update with which the activity that holds the session asks its workflow."""


class McpAnswer(Contract):
    """The result of the tool (MCP `CallToolResult`), unchanged."""

    content: tuple[dict[str, JsonValue], ...] = ()
    structured: dict[str, JsonValue] | None = None
    is_error: bool = False
    meta: dict[str, JsonValue] = Field(default_factory=dict)
