# The public names of `outlast.client`. Type checkers read them here, and so does `lazy_exports`.

from outlast.client.asynchronous.client import AsyncClient as AsyncClient
from outlast.client.asynchronous.transport import AsyncStream as AsyncStream
from outlast.client.blocking.client import Client as Client
from outlast.client.blocking.transport import Stream as Stream
from outlast.client.client_tools import (
    ClientTool as ClientTool,
    NoAnswer as NoAnswer,
)
from outlast.client.connection import (
    Connection as Connection,
    find_connection as find_connection,
)
from outlast.client.contracts.batches import (
    Batch as Batch,
    BatchPage as BatchPage,
    BatchRow as BatchRow,
)
from outlast.client.contracts.events import (
    Event as Event,
    TaskRow as TaskRow,
)
from outlast.client.contracts.handoffs import (
    HandoffEvent as HandoffEvent,
    OpenHandoff as OpenHandoff,
)
from outlast.client.contracts.operations import (
    CallerHoldings as CallerHoldings,
    OpenTask as OpenTask,
    Operations as Operations,
    QueueState as QueueState,
    TaskCounts as TaskCounts,
    WorkerState as WorkerState,
)
from outlast.client.contracts.outputs import (
    RowSelection as RowSelection,
    StoredOutput as StoredOutput,
)
from outlast.client.contracts.providers import (
    Model as Model,
    Provider as Provider,
)
from outlast.client.contracts.schedules import (
    Firing as Firing,
    Interval as Interval,
    SavedCall as SavedCall,
    Schedule as Schedule,
)
from outlast.client.contracts.sessions import (
    Budgets as Budgets,
    Message as Message,
    MessageMedia as MessageMedia,
    MessagePage as MessagePage,
    MessagePart as MessagePart,
    Session as Session,
    SessionEntry as SessionEntry,
    Spent as Spent,
    Turn as Turn,
    TurnSummary as TurnSummary,
    Usage as Usage,
)
from outlast.client.contracts.tasks import (
    Content as Content,
    Handoff as Handoff,
    InputRequest as InputRequest,
    Progress as Progress,
    Run as Run,
    Task as Task,
    TaskAnswer as TaskAnswer,
    TaskPage as TaskPage,
    ToolError as ToolError,
    ToolResult as ToolResult,
    UntilMet as UntilMet,
    Violation as Violation,
)
from outlast.client.contracts.tools import (
    Readiness as Readiness,
    Tool as Tool,
)
from outlast.client.contracts.usage import (
    CapUsage as CapUsage,
    UsageReport as UsageReport,
    UsageRow as UsageRow,
)
from outlast.client.contracts.webhooks import (
    Delivery as Delivery,
    Webhook as Webhook,
    WebhookBacklog as WebhookBacklog,
)
from outlast.client.errors import (
    ApiError as ApiError,
    BadSettings as BadSettings,
    Conflict as Conflict,
    ConnectionFailed as ConnectionFailed,
    ForeignServer as ForeignServer,
    InvalidRequest as InvalidRequest,
    NoServer as NoServer,
    NotFound as NotFound,
    OutlastError as OutlastError,
    PermissionDenied as PermissionDenied,
    RateLimited as RateLimited,
    TaskFailed as TaskFailed,
    Unauthenticated as Unauthenticated,
    Unavailable as Unavailable,
    UnexpectedAnswer as UnexpectedAnswer,
    WaitTimedOut as WaitTimedOut,
)
from outlast.client.retries import (
    OnWaiting as OnWaiting,
    RetryPolicy as RetryPolicy,
    Waiting as Waiting,
)
from outlast.contracts.options import (
    BatchOptions as BatchOptions,
    CallOptions as CallOptions,
    MessageOptions as MessageOptions,
    ResurrectOptions as ResurrectOptions,
    SavedCallOptions as SavedCallOptions,
    ScheduleOptions as ScheduleOptions,
    SessionOptions as SessionOptions,
    UsageOptions as UsageOptions,
)
