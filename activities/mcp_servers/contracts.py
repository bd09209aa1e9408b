"""Contracts of the activities that call MCP servers: those of the operator's file, and Actors that are ones.

Each server of the file has one entity workflow, `server_workflow_id(name)`, which keeps its last list of tools,
and which worker holds each session.
"""

import hashlib
from datetime import datetime
from typing import Final, Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract, JsonObject, SealedSecret
from outlast.activities.outputs.contracts import DEFAULT_TTL_SECONDS, OutputScope, StoredOutput
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

    sent: bool = Field(description="The request may have left the process.")
    progress: CallProgress | None = None
    queue: str | None = Field(default=None, description="Queue of the worker that has the session.")


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


SessionScope = Literal["call", "task", "conversation", "caller", "shared"]
"""Calls that share one session with a server, and so its state."""

SERVER_WORKFLOW: Final = "McpServerWorkflow"
SERVER_WORKFLOW_PREFIX: Final = "mcp-server-"
LIST_TOOLS_UPDATE: Final = "list_tools"
PLACE_SESSION_UPDATE: Final = "place_session"
NOTE_SESSION_SIGNAL: Final = "note_session"
NOTE_CHANGE_SIGNAL: Final = "note_change"
STATUS_QUERY: Final = "status"
REQUEST_WORKFLOW: Final = "McpRequestWorkflow"
REQUEST_WORKFLOW_PREFIX: Final = "mcp-request-"
CHANGES_MEMO: Final = "outlast_server_changes"
"""Entry of the memo of a server's workflow: `ServerChanges`."""
SESSION_LOST: Final = "The session with the MCP server"
"""The beginning of the message of the first call after a session was lost, which was not sent."""


def server_workflow_id(server: str, variant: str | None = None) -> str:
    """Return the id of the workflow that keeps the state of this server; with `variant`, that of a caller's list."""
    return SERVER_WORKFLOW_PREFIX + server + (f".{variant}" if variant else "")


class Verify(Contract):
    """A question that decides whether a call was executed whose answer was lost."""

    tool: str = Field(description="A tool of the same server that only reads.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="`{name}` in a string is replaced by that argument of the call."
    )
    done: str = Field(
        description="JMESPath over `{structured, content, text, is_error}` of its answer: true if it was executed."
    )


class ServerTool(McpTool):
    """A tool of a server of the operator's file."""

    annotated: bool = Field(default=False, description="False if the server gave no annotations.")


class ServerPackage(Contract):
    """The package that the command of a server runs."""

    kind: Literal["npm", "pypi"]
    name: str
    version: str | None = Field(default=None, description="None if neither command nor local cache have it.")
    integrity: str | None = Field(
        default=None, description="Digest: for npm that of the registry, for PyPI that of the files in the wheel."
    )

    @property
    def shown(self) -> str:
        """The package for people."""
        return f"{self.kind} {self.name}, version {self.version or 'unknown'}, {self.integrity or 'digest unknown'}"


class ListServerInput(Contract):
    """Input of the update `list_tools`, and of the activity `list_server_tools`."""

    server: str
    config_digest: str = Field(description="`Servers.digest`: a list of another configuration is not reused.")
    max_age_seconds: float = Field(default=0.0, description="A list that is not older is returned at once.")
    caller_id: str | None = Field(default=None, description="Caller whose list it is; None for that of all.")
    caller_secrets: dict[str, SealedSecret] = Field(default_factory=dict, description="Of that caller.")


class ServerListing(Contract):
    """The tools of a server: those of the last attempt that succeeded."""

    server: str
    tools: tuple[ServerTool, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="Tools that cannot be used, and why.")
    instructions: str | None = None
    protocol: str | None = Field(default=None, description="Revision of the protocol; None if it never answered.")
    listed_at: datetime = Field(description="When the tools were listed; with none ever listed, the last attempt.")
    error: str | None = Field(default=None, description="Why the last attempt failed; None if it succeeded.")
    kind: Literal["stdio", "http"] | None = None
    package: ServerPackage | None = None
    resources: tuple[JsonObject, ...] = Field(default=(), description="MCP `Resource`, as the server lists them.")
    resource_templates: tuple[JsonObject, ...] = Field(default=(), description="MCP `ResourceTemplate`.")
    prompts: tuple[JsonObject, ...] = Field(default=(), description="MCP `Prompt`.")
    completes: bool = Field(default=False, description="It suggests values of arguments (`completion/complete`).")
    subscribes: bool = Field(default=False, description="It notifies of changed resources.")


class PlaceSessionInput(Contract):
    """Input of the update `place_session`."""

    key: str = Field(description="`ServerCall.session_key`.")
    candidate_queue: str = Field(description="Queue of a worker that can open the session.")
    lost_queue: str | None = Field(default=None, description="Queue of a worker that is lost, as the caller found.")


class SessionPlace(Contract):
    """The worker that holds a session."""

    queue: str
    replaces: bool = Field(default=False, description="A session with this key existed on a worker that is lost.")


class SessionNote(Contract):
    """Signal `note_session`: what a worker reports of a session."""

    key: str
    queue: str
    event: Literal["ended", "lost", "restarted"] = Field(
        description="`ended`: it was idle, and its next call opens another one. `lost`: its worker stops, so its state "
        "is gone. `restarted`: its process or connection was lost; the worker opens another one."
    )


class ServerChange(Contract):
    """Signal `note_change`: what a server has told a worker of, in one of its sessions."""

    lists: bool = Field(default=False, description="A list has changed: of tools, resources or prompts.")
    uris: tuple[str, ...] = Field(default=(), description="Digests of resources that have changed (`digest_of_uri`).")
    queue: str = Field(description="Queue of that worker, which lists what the session has now.")


class ServerChanges(Contract):
    """The changes of a server, counted: entry points read it from the memo of its workflow."""

    lists: int = 0
    updates: dict[str, int] = Field(
        default_factory=dict, description="By the digest of a resource, the number of its latest change; 200 at most."
    )


MAX_UPDATES: Final = 200


def digest_of_uri(uri: str) -> str:
    """Return the digest under which changes of a resource are counted. URIs may contain what only callers may see."""
    return hashlib.sha256(uri.encode(errors="surrogatepass")).hexdigest()[:24]


class ServerStatus(Contract):
    """Answer of the query `status`."""

    server: str
    kind: Literal["stdio", "http"]
    state: Literal["unknown", "up", "down"] = "unknown"
    error: str | None = None
    since: datetime | None = Field(default=None, description="When it came into this state.")
    tools: int = 0
    sessions: int = 0
    restarts: int = 0


class ServerState(Contract):
    """Input of `McpServerWorkflow`: what it continues from."""

    server: str
    kind: Literal["stdio", "http"]
    config_digest: str = ""
    listing: ServerListing | None = None
    state: Literal["unknown", "up", "down"] = "unknown"
    error: str | None = None
    since: datetime | None = None
    tried_at: datetime | None = Field(default=None, description="When the last list was attempted.")
    restarts: int = 0
    places: dict[str, str] = Field(default_factory=dict, description="Queue of each session's worker, by key.")
    changes: ServerChanges = ServerChanges()
    told_queue: str | None = Field(default=None, description="Queue of the worker that was told of the last change.")


class CheckDoneInput(Contract):
    """Input of `check_server_call`: decides by the answer of a `verify` whether a call was executed."""

    expression: str
    answer: McpAnswer


class SessionUse(Contract):
    """The session of a call or request."""

    caller_id: str
    server: str
    session: SessionScope
    session_key: str
    is_placed: bool = Field(default=False, description="The session belongs to the worker of this queue.")
    lost_queue: str | None = Field(default=None, description="Queue of the worker that was lost with the session.")
    tells_loss: bool = Field(default=True, description="Fail, once, if the session was lost and another is opened.")
    caller_secrets: dict[str, SealedSecret] = Field(default_factory=dict, description="`Caller.server_secrets`.")


class CallServerToolInput(SessionUse):
    """Input of `call_server_tool`: calls one tool of a server once, or names the worker that has the session."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    repeats_safely: bool = Field(default=False, description="A lost answer changes nothing: the call is repeated.")
    timeout_seconds: float | None = Field(default=None, description="Limit for the answer, in seconds.")
    scope: OutputScope | None = Field(default=None, description="Owner of an answer that is too large to return.")
    ttl_seconds: int = Field(default=DEFAULT_TTL_SECONDS, description="Time that such an answer is kept.")


class ServerAnswer(Contract):
    """Result of `call_server_tool`. Without answer and output: another worker has the session."""

    answer: McpAnswer | None = None
    stored: StoredOutput | None = Field(default=None, description="The answer, if it is too large to return.")
    queue: str | None = Field(default=None, description="Queue of the worker that has the session.")

    @property
    def elsewhere(self) -> bool:
        """True if another worker has the session."""
        return self.answer is None


RequestMethod = Literal["resources/read", "prompts/get", "completion/complete"]
"""Requests that only read, so that they are repeated freely."""


class RequestServerInput(SessionUse):
    """Input of `McpRequestWorkflow` and of `request_server`: one request that only reads."""

    method: RequestMethod
    params: JsonObject = Field(default_factory=dict)


class ServerError(Contract):
    """An error of JSON-RPC."""

    code: int
    message: str


class ServerReply(Contract):
    """Result of a request. Without result and error: another worker has the session."""

    result: JsonObject | None = None
    error: ServerError | None = None
    queue: str | None = Field(default=None, description="Queue of the worker that has the session.")

    @property
    def elsewhere(self) -> bool:
        """True if another worker has the session."""
        return self.result is None and self.error is None
