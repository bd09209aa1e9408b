"""Durable tool execution for AI agents.

Write tools with `tool`, `plain` and `Arguments` (docs/writing-a-tool.md); call them with `Client` and `AsyncClient`
(docs/python-client.md). Importing this package loads none of its parts: each is loaded when its name is first used.
"""

from outlast.late_names import late_names

TYPE_CHECKING = False  # type checkers know the name; `typing` itself takes 10 ms to load
if TYPE_CHECKING:
    from outlast.activities.failures.classify import (
        ToolFailure,
    )
    from outlast.activities.failures.contracts import (
        ErrorCategory,
        ErrorEnvelope,
    )
    from outlast.activities.runs.contracts import (
        Budget,
        RunSpec,
    )
    from outlast.client import (
        ApiError,
        AsyncClient,
        BadSettings,
        Batch,
        BatchRow,
        Budgets,
        Client,
        ClientTool,
        Conflict,
        Connection,
        ConnectionFailed,
        Event,
        ForeignServer,
        InputRequest,
        InvalidRequest,
        Message,
        NoAnswer,
        NoServer,
        NotFound,
        OpenHandoff,
        OutlastError,
        PermissionDenied,
        RateLimited,
        RetryPolicy,
        Session,
        StoredOutput,
        Task,
        TaskAnswer,
        TaskFailed,
        TaskRow,
        Turn,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        WaitTimedOut,
    )
    from outlast.workflows.contracts.tool_calls import (
        AudioContent,
        BlobResource,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
        ToolResult,
    )
    from outlast.workflows.handler_api.context import (
        ToolContext,
    )
    from outlast.workflows.handler_api.failures import (
        ToolError,
    )
    from outlast.workflows.tools.framework.phases import (
        Approval,
        Authority,
        ClientPhase,
        Reply,
        plain,
    )
    from outlast.workflows.tools.framework.plain_functions import (
        CallContext,
    )
    from outlast.workflows.tools.framework.tool import (
        Arguments,
        Category,
        NoArguments,
        TaskUse,
        Tool,
        ToolAnnotations,
        tool,
    )

    __version__: str

__all__ = [
    "ApiError",
    "Approval",
    "Arguments",
    "AsyncClient",
    "AudioContent",
    "Authority",
    "BadSettings",
    "Batch",
    "BatchRow",
    "BlobResource",
    "Budget",
    "Budgets",
    "CallContext",
    "Category",
    "Client",
    "ClientPhase",
    "ClientTool",
    "Conflict",
    "Connection",
    "ConnectionFailed",
    "EmbeddedResource",
    "ErrorCategory",
    "ErrorEnvelope",
    "Event",
    "ForeignServer",
    "ImageContent",
    "InputRequest",
    "InvalidRequest",
    "Message",
    "NoAnswer",
    "NoArguments",
    "NoServer",
    "NotFound",
    "OpenHandoff",
    "OutlastError",
    "PermissionDenied",
    "RateLimited",
    "Reply",
    "ResourceLink",
    "RetryPolicy",
    "RunSpec",
    "Session",
    "StoredOutput",
    "Task",
    "TaskAnswer",
    "TaskFailed",
    "TaskRow",
    "TaskUse",
    "TextContent",
    "Tool",
    "ToolAnnotations",
    "ToolContext",
    "ToolError",
    "ToolFailure",
    "ToolResult",
    "Turn",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "WaitTimedOut",
    "__version__",
    "plain",
    "tool",
]

_AUTHORING = {
    "outlast.activities.failures.classify": ("ToolFailure",),
    "outlast.activities.failures.contracts": ("ErrorCategory", "ErrorEnvelope"),
    "outlast.activities.runs.contracts": ("Budget", "RunSpec"),
    "outlast.workflows.contracts.tool_calls": (
        "AudioContent",
        "BlobResource",
        "EmbeddedResource",
        "ImageContent",
        "ResourceLink",
        "TextContent",
        "ToolResult",
    ),
    "outlast.workflows.handler_api.context": ("ToolContext",),
    "outlast.workflows.handler_api.failures": ("ToolError",),
    "outlast.workflows.tools.framework.plain_functions": ("CallContext",),
    "outlast.workflows.tools.framework.phases": ("Approval", "Authority", "ClientPhase", "Reply", "plain"),
    "outlast.workflows.tools.framework.tool": (
        "Arguments",
        "Category",
        "NoArguments",
        "TaskUse",
        "Tool",
        "ToolAnnotations",
        "tool",
    ),
}
"""What writes a tool, by module. All other names are the client's."""
_CLIENT = tuple(sorted({*__all__} - {"__version__", *(name for names in _AUTHORING.values() for name in names)}))
_load, __dir__ = late_names(__name__, {**_AUTHORING, "outlast.client": _CLIENT}, "__version__")


def __getattr__(name: str) -> object:
    """Load what `name` stands for, once."""
    if name != "__version__":
        return _load(name)
    from importlib.metadata import version  # noqa: PLC0415 (20 ms)

    globals()[name] = version("outlast")
    return globals()[name]
