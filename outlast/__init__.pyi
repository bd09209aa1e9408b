# The public names of `outlast`. Type checkers read them here, and so does `lazy_exports`.

from outlast.activities.failures.classify import ToolFailure as ToolFailure
from outlast.activities.contracts import (
    ErrorCategory as ErrorCategory,
    ErrorEnvelope as ErrorEnvelope,
)
from outlast.activities.runs.contracts import (
    Budget as Budget,
    RunSpec as RunSpec,
)
from outlast.client import (
    ApiError as ApiError,
    AsyncClient as AsyncClient,
    BadSettings as BadSettings,
    Batch as Batch,
    BatchRow as BatchRow,
    Budgets as Budgets,
    Client as Client,
    ClientTool as ClientTool,
    Conflict as Conflict,
    Connection as Connection,
    ConnectionFailed as ConnectionFailed,
    Event as Event,
    ForeignServer as ForeignServer,
    InputRequest as InputRequest,
    InvalidRequest as InvalidRequest,
    Message as Message,
    NoAnswer as NoAnswer,
    NoServer as NoServer,
    NotFound as NotFound,
    OpenHandoff as OpenHandoff,
    OutlastError as OutlastError,
    PermissionDenied as PermissionDenied,
    RateLimited as RateLimited,
    RetryPolicy as RetryPolicy,
    Session as Session,
    StoredOutput as StoredOutput,
    Task as Task,
    TaskAnswer as TaskAnswer,
    TaskFailed as TaskFailed,
    TaskRow as TaskRow,
    Turn as Turn,
    Unauthenticated as Unauthenticated,
    Unavailable as Unavailable,
    UnexpectedAnswer as UnexpectedAnswer,
    WaitTimedOut as WaitTimedOut,
)
from outlast.workflows.contracts.tool_calls import (
    AudioContent as AudioContent,
    BlobResource as BlobResource,
    EmbeddedResource as EmbeddedResource,
    ImageContent as ImageContent,
    ResourceLink as ResourceLink,
    TextContent as TextContent,
    ToolResult as ToolResult,
)
from outlast.workflows.handler_api.context import HandlerContext as HandlerContext
from outlast.workflows.handler_api.failures import ToolError as ToolError
from outlast.workflows.tools.framework.tool_context import (
    Approved as Approved,
    CallFailed as CallFailed,
    NotAnswered as NotAnswered,
    NotApproved as NotApproved,
    SyncToolContext as SyncToolContext,
    ToolContext as ToolContext,
)
from outlast.workflows.tools.framework.phases import (
    Approval as Approval,
    Authority as Authority,
    ClientPhase as ClientPhase,
    Reply as Reply,
    plain as plain,
)
from outlast.workflows.tools.framework.decorator import (
    FunctionTool as FunctionTool,
    tool as tool,
)
from outlast.workflows.tools.framework.tool import (
    Arguments as Arguments,
    Category as Category,
    NoArguments as NoArguments,
    TaskUse as TaskUse,
    Tool as Tool,
    ToolAnnotations as ToolAnnotations,
)

__version__: str
