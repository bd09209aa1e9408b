"""The Python client: `Client` and `AsyncClient`, their contracts and errors. docs/python-client.md describes them.

Importing this package loads none of its parts: each is loaded when its name is first used.
"""

from outlast.late_names import late_names

TYPE_CHECKING = False  # as in `outlast`
if TYPE_CHECKING:
    from outlast.client.asynchronous.client import AsyncClient
    from outlast.client.asynchronous.transport import AsyncStream
    from outlast.client.blocking.client import Client
    from outlast.client.blocking.transport import Stream
    from outlast.client.client_tools import ClientTool, NoAnswer
    from outlast.client.connection import Connection, find_connection
    from outlast.client.contracts.batches import Batch, BatchPage, BatchRow
    from outlast.client.contracts.events import Event, TaskRow
    from outlast.client.contracts.handoffs import HandoffEvent, OpenHandoff
    from outlast.client.contracts.operations import (
        CallerHoldings,
        OpenTask,
        Operations,
        QueueState,
        TaskCounts,
        WorkerState,
    )
    from outlast.client.contracts.outputs import RowSelection, StoredOutput
    from outlast.client.contracts.providers import Model, Provider
    from outlast.client.contracts.schedules import Firing, Interval, SavedCall, Schedule
    from outlast.client.contracts.sessions import (
        Budgets,
        Message,
        MessageMedia,
        MessagePage,
        MessagePart,
        Session,
        SessionEntry,
        Spent,
        Turn,
        TurnSummary,
        Usage,
    )
    from outlast.client.contracts.tasks import (
        Content,
        Handoff,
        InputRequest,
        Progress,
        Run,
        Task,
        TaskAnswer,
        TaskPage,
        ToolError,
        ToolResult,
        UntilMet,
        Violation,
    )
    from outlast.client.contracts.tools import Readiness, Tool
    from outlast.client.contracts.usage import CapUsage, UsageReport, UsageRow
    from outlast.client.contracts.webhooks import Delivery, Webhook, WebhookBacklog
    from outlast.client.errors import (
        ApiError,
        BadSettings,
        Conflict,
        ConnectionFailed,
        ForeignServer,
        InvalidRequest,
        NoServer,
        NotFound,
        OutlastError,
        PermissionDenied,
        RateLimited,
        TaskFailed,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        WaitTimedOut,
    )
    from outlast.client.flows.requests import BatchOptions, CallOptions, MessageOptions, SessionOptions
    from outlast.client.flows.schedules import ScheduleOptions
    from outlast.client.flows.usage import UsageOptions
    from outlast.client.retries import OnWaiting, RetryPolicy, Waiting

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncStream",
    "BadSettings",
    "Batch",
    "BatchOptions",
    "BatchPage",
    "BatchRow",
    "Budgets",
    "CallOptions",
    "CallerHoldings",
    "CapUsage",
    "Client",
    "ClientTool",
    "Conflict",
    "Connection",
    "ConnectionFailed",
    "Content",
    "Delivery",
    "Event",
    "Firing",
    "ForeignServer",
    "Handoff",
    "HandoffEvent",
    "InputRequest",
    "Interval",
    "InvalidRequest",
    "Message",
    "MessageMedia",
    "MessageOptions",
    "MessagePage",
    "MessagePart",
    "Model",
    "NoAnswer",
    "NoServer",
    "NotFound",
    "OnWaiting",
    "OpenHandoff",
    "OpenTask",
    "Operations",
    "OutlastError",
    "PermissionDenied",
    "Progress",
    "Provider",
    "QueueState",
    "RateLimited",
    "Readiness",
    "RetryPolicy",
    "RowSelection",
    "Run",
    "SavedCall",
    "Schedule",
    "ScheduleOptions",
    "Session",
    "SessionEntry",
    "SessionOptions",
    "Spent",
    "StoredOutput",
    "Stream",
    "Task",
    "TaskAnswer",
    "TaskCounts",
    "TaskFailed",
    "TaskPage",
    "TaskRow",
    "Tool",
    "ToolError",
    "ToolResult",
    "Turn",
    "TurnSummary",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "UntilMet",
    "Usage",
    "UsageOptions",
    "UsageReport",
    "UsageRow",
    "Violation",
    "WaitTimedOut",
    "Waiting",
    "Webhook",
    "WebhookBacklog",
    "WorkerState",
    "find_connection",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "outlast.client.asynchronous.client": ("AsyncClient",),
    "outlast.client.asynchronous.transport": ("AsyncStream",),
    "outlast.client.blocking.client": ("Client",),
    "outlast.client.blocking.transport": ("Stream",),
    "outlast.client.client_tools": (
        "ClientTool",
        "NoAnswer",
    ),
    "outlast.client.connection": (
        "Connection",
        "find_connection",
    ),
    "outlast.client.contracts.batches": (
        "Batch",
        "BatchPage",
        "BatchRow",
    ),
    "outlast.client.contracts.events": ("Event", "TaskRow"),
    "outlast.client.contracts.handoffs": ("HandoffEvent", "OpenHandoff"),
    "outlast.client.contracts.operations": (
        "CallerHoldings",
        "OpenTask",
        "Operations",
        "QueueState",
        "TaskCounts",
        "WorkerState",
    ),
    "outlast.client.contracts.outputs": (
        "RowSelection",
        "StoredOutput",
    ),
    "outlast.client.contracts.providers": (
        "Model",
        "Provider",
    ),
    "outlast.client.contracts.schedules": (
        "Firing",
        "Interval",
        "SavedCall",
        "Schedule",
    ),
    "outlast.client.contracts.sessions": (
        "Budgets",
        "Message",
        "MessageMedia",
        "MessagePage",
        "MessagePart",
        "Session",
        "SessionEntry",
        "Spent",
        "Turn",
        "TurnSummary",
        "Usage",
    ),
    "outlast.client.contracts.tasks": (
        "Content",
        "Handoff",
        "InputRequest",
        "Progress",
        "Run",
        "Task",
        "TaskAnswer",
        "TaskPage",
        "ToolError",
        "ToolResult",
        "UntilMet",
        "Violation",
    ),
    "outlast.client.contracts.tools": (
        "Readiness",
        "Tool",
    ),
    "outlast.client.contracts.usage": (
        "CapUsage",
        "UsageReport",
        "UsageRow",
    ),
    "outlast.client.contracts.webhooks": (
        "Delivery",
        "Webhook",
        "WebhookBacklog",
    ),
    "outlast.client.errors": (
        "ApiError",
        "BadSettings",
        "Conflict",
        "ConnectionFailed",
        "ForeignServer",
        "InvalidRequest",
        "NoServer",
        "NotFound",
        "OutlastError",
        "PermissionDenied",
        "RateLimited",
        "TaskFailed",
        "Unauthenticated",
        "Unavailable",
        "UnexpectedAnswer",
        "WaitTimedOut",
    ),
    "outlast.client.flows.requests": (
        "BatchOptions",
        "CallOptions",
        "MessageOptions",
        "SessionOptions",
    ),
    "outlast.client.flows.schedules": ("ScheduleOptions",),
    "outlast.client.flows.usage": ("UsageOptions",),
    "outlast.client.retries": (
        "OnWaiting",
        "RetryPolicy",
        "Waiting",
    ),
}

__getattr__, __dir__ = late_names(__name__, _MODULES)
