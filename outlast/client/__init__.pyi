# The public names of `outlast.client`. Type checkers read them here, and so does `lazy_exports`.

from outlast.client.asynchronous.client import AsyncClient as AsyncClient
from outlast.client.asynchronous.transport import AsyncStream as AsyncStream
from outlast.client.blocking.client import Client as Client
from outlast.client.blocking.transport import Stream as Stream
from outlast.client.client_tools import (
    ClientTool as ClientTool,
    NoAnswer as NoAnswer,
)
from outlast.client.http import (
    Connection as Connection,
    find_connection as find_connection,
)
from outlast.contracts.batches import Batch as Batch, BatchPage as BatchPage, BatchRow as BatchRow
from outlast.contracts.tasks import Event as Event
from outlast.contracts.tasks import TaskRow as TaskRow
from outlast.contracts.handoffs import HandoffEvent as HandoffEvent, OpenHandoff as OpenHandoff
from outlast.contracts.operations import (
    CallerHoldings as CallerHoldings,
    HealthCheck as HealthCheck,
    HealthReport as HealthReport,
    Links as Links,
    Me as Me,
    OpenTask as OpenTask,
    Operations as Operations,
    PolicyExplanation as PolicyExplanation,
    QueueState as QueueState,
    TaskCounts as TaskCounts,
    WorkerState as WorkerState,
)
from outlast.contracts.outputs import RowSelection as RowSelection
from outlast.activities.outputs.contracts import StoredOutput as StoredOutput
from outlast.contracts.servers import (
    McpPinChange as McpPinChange,
    McpQuarantinedTool as McpQuarantinedTool,
    McpServer as McpServer,
    McpServerDetails as McpServerDetails,
    McpServerList as McpServerList,
    McpServerPin as McpServerPin,
    McpServerTool as McpServerTool,
)
from outlast.contracts.sessions import Model as Model, Provider as Provider
from outlast.contracts.schedules import Firing as Firing, Schedule as Schedule
from outlast.workflows.schedules.contracts import Interval as Interval
from outlast.contracts.schedules import SavedCall as SavedCall
from outlast.workflows.contracts.sessions import Budgets as Budgets, Spent as Spent
from outlast.contracts.answers import (
    Message as Message,
    MessageMedia as MessageMedia,
    MessagePage as MessagePage,
    MessagePart as MessagePart,
    Turn as Turn,
)
from outlast.contracts.sessions import Session as Session, SessionEntry as SessionEntry, TurnSummary as TurnSummary
from outlast.activities.llm.contracts import Usage as Usage
from outlast.contracts.answers import Content as Content, TaskAnswer as TaskAnswer, ToolResult as ToolResult
from outlast.workflows.contracts.questions import Handoff as Handoff, InputRequest as InputRequest
from outlast.workflows.contracts.tool_calls import Progress as Progress
from outlast.contracts.tasks import (
    Run as Run,
    Task as Task,
    TaskCall as TaskCall,
    TaskFailure as TaskFailure,
    TaskPage as TaskPage,
    ToolError as ToolError,
)
from outlast.activities.runs.contracts import UntilMet as UntilMet
from outlast.activities.contracts import Violation as Violation
from outlast.contracts.operations import Readiness as Readiness
from outlast.contracts.tasks import Tool as Tool
from outlast.contracts.operations import (
    CallerCaps as CallerCaps,
    CapUsage as CapUsage,
    UsageReport as UsageReport,
    UsageRow as UsageRow,
)
from outlast.contracts.webhooks import Delivery as Delivery, Webhook as Webhook, WebhookBacklog as WebhookBacklog
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
    TaskFilter as TaskFilter,
    UsageOptions as UsageOptions,
)
