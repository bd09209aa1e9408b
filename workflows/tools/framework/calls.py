"""Calls that a tool's function makes of other tools (`ctx.call`): each is a task, and a child of the function's task.

An activity decides on each call, so that the decision is recorded: by the definition of the called tool, and by the
rules that its caller's own call has brought along.
"""

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from pydantic import Field, JsonValue
from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ParentClosePolicy

from outlast.activities.contracts import Caller, Contract, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import Budget
from outlast.activities.spending.contracts import exact_usd
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.failed_tasks import outcome_of
from outlast.workflows.contracts.queues import FUNCTIONS_TASK_QUEUE
from outlast.workflows.contracts.steps import CallOutcome, Wait
from outlast.workflows.contracts.tool_calls import (
    AdmittedTool,
    InnerCalls,
    PermissionRuling,
    ServerCall,
    TaskSummary,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from outlast.workflows.handler_api.activity_calls import remaining, tool_errors
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.handler_api.observability import log_accepted
from outlast.workflows.tools.framework.ids import derived_task_id
from outlast.workflows.tools.framework.journal import MAX_STEP_BYTES

ADMIT_INNER_CALL = "admit_inner_call"
INNER_MODE = "default"
"""A function waits for the tools that it calls, so it uses the mode in which a tool's answer is its result."""
RUN_PROGRAM = "run-program"
"""Name of the tool that runs programs."""
MAX_DEPTH = 5
"""Most calls within each other, the outermost not counted."""
LEAST_USD = Decimal("0.0001")
_TOOL_CALL_WORKFLOW = "ToolCallWorkflow"


class InnerCallInput(Contract):
    """Input of the activity that decides whether a function may call a tool."""

    tool: str
    arguments: JsonObject
    caller_id: str
    caller: Caller | None = Field(default=None, description="The caller with its sealed token; None in old histories.")
    sealed: tuple[str, ...] = Field(default=(), description="Names of the arguments that are encrypted.")
    called_from: str = Field(description="The tool whose function makes the call.")
    inner: InnerCalls
    offered_tools: tuple[str, ...] = Field(default=(), description="As in `ToolCall`.")
    tool_mask: dict[str, bool] | None = Field(default=None, description="As in `ToolCall`.")
    is_paid: bool = Field(default=False, description="Whether the caller's connection pays, and no account does.")
    has_budget: bool = Field(default=True, description="Whether anything is left of the budget.")


class InnerAdmission(Contract):
    """The decision on a call: why it is not started, or what it is started with."""

    refusal: ErrorEnvelope | None = None
    tool: str = Field(default="", description="The tool's own name.")
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    changes: tuple[str, ...] = ()
    permission: PermissionRuling | None = None
    has_approval: bool = False
    calls_tools: bool = False
    admitted_tool: AdmittedTool | None = None
    budget_usd: Decimal | None = Field(default=None, description="Most that a call of this tool may spend.")
    is_function: bool = False
    executor: Literal["none", "sync", "async"] = "none"
    actor: str | None = None
    server: ServerCall | None = Field(default=None, description="For a tool of an MCP server.")


def rules_for_program(ctx: HandlerContext) -> InnerCallInput | None:
    """The rules by which a program may see tools; None for a call that is no program."""
    call = ctx.call
    if call.tool != RUN_PROGRAM or call.inner is None:
        return None
    return InnerCallInput(
        tool="",
        arguments={},
        caller_id=call.caller.id,
        called_from=call.tool,
        inner=call.inner,
        offered_tools=call.offered_tools,
        tool_mask=call.tool_mask,
        is_paid=call.is_paid or call.pays_with is not None,
    )


def budget_of_each(ctx: HandlerContext, count: int, *, reserved_usd: Decimal = Decimal(0)) -> Budget:
    """An equal share of what is left of the call's budget, for each of `count` calls that are made at once. Other open
    calls have reserved an amount of it.

    The caller's spending cap for one task limits a call together with those that its function makes.
    """
    budget, caps = ctx.call.options.budget, ctx.call.caps
    if caps is not None and caps.per_task_usd is not None:
        budget = budget.at_most(exact_usd(caps.per_task_usd))
    if budget.max_total_charge_usd is None or count == 0:
        return budget
    left = budget.max_total_charge_usd - Decimal(str(ctx.cost_usd or 0)) - reserved_usd
    share = max(left / count, Decimal(0)).quantize(Decimal("0.000001"))
    return budget.model_copy(update={"max_total_charge_usd": share})


async def call_tool(ctx: HandlerContext, wait: Wait, budget: Budget) -> CallOutcome:
    """Call the tool as a task, and return how it ended. Every failure is an outcome; only cancellation is raised."""
    tool = wait.tool or ""
    try:
        call = await _admitted(ctx, wait, budget)
        return await _outcome(ctx, *call, position=wait.position)
    except ToolError as error:
        return CallOutcome(result=ToolResult.failed(error.envelope.model_copy(update={"tool": tool})))
    except BaseException as error:
        if ctx.cancelled and is_cancelled_exception(error):
            # A group of tasks takes any other exception for a failure.
            raise asyncio.CancelledError("The call was cancelled.") from error
        raise


async def _admitted(ctx: HandlerContext, wait: Wait, budget: Budget) -> tuple[ToolCall, InnerAdmission]:
    """The call, and the decision on it. Raises `ToolError` if it may not be made."""
    call, inner, tool = ctx.call, ctx.call.inner, wait.tool or ""
    if inner is None:
        raise ToolError(_not_carried(tool))
    limit = budget.max_total_charge_usd
    request = InnerCallInput(
        tool=tool,
        arguments=wait.details,
        caller_id=call.caller.id,
        caller=call.caller,
        sealed=wait.sealed,
        called_from=call.tool,
        inner=inner,
        offered_tools=call.offered_tools,
        tool_mask=call.tool_mask,
        is_paid=call.is_paid or call.pays_with is not None,
        # A call that is made without money left gets LEAST_USD, with which its own calls must not start a run.
        has_budget=limit is None or limit > LEAST_USD,
    )
    with tool_errors(tool):
        admission = await workflow.execute_activity(
            ADMIT_INNER_CALL,
            request,
            result_type=InnerAdmission,
            task_queue=FUNCTIONS_TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=30),
            schedule_to_close_timeout=remaining(call),
            retry_policy=RetryPolicy(maximum_attempts=5),
            summary=f"rules for {tool}"[:100],
        )
    if admission.refusal is not None:
        raise ToolError(admission.refusal)
    if limit is not None:
        budget = budget.model_copy(update={"max_total_charge_usd": max(limit, LEAST_USD)})
    budget = budget.at_most(admission.budget_usd)
    output = call.output
    if admission.is_function:  # The function gets the whole value, as it is.
        output = output.model_copy(update={"compress": False, "inline_limit_bytes": MAX_STEP_BYTES // 2})
    return ToolCall(
        tool=admission.tool,
        arguments=admission.arguments,
        changes=admission.changes,
        mode=INNER_MODE,
        caller=call.caller,
        options=call.options.model_copy(update={"budget": budget, "until": None, "resurrect": None}),
        pays_with=call.pays_with,
        output=output,
        offered_tools=call.offered_tools,
        tool_mask=call.tool_mask,
        permission=admission.permission,
        has_approval=admission.has_approval,
        admitted_tool=admission.admitted_tool,
        caps=call.caps,
        inner=inner.model_copy(update={"depth": inner.depth + 1}) if admission.calls_tools else None,
        server=admission.server,
    ), admission


async def _outcome(ctx: HandlerContext, call: ToolCall, admission: InnerAdmission, *, position: str) -> CallOutcome:
    """Carry the call out as a task. When the function's own call is cancelled, the task is, too, and is awaited."""
    task_id = derived_task_id(call.tool, ctx.task_id, position)
    summary = TaskSummary(
        tool=call.tool,
        mode=call.mode,
        executor=admission.executor,
        actor=admission.actor,
        created_at=workflow.now(),
        fingerprint=task_id,
        admitted_tool=call.admitted_tool,
        called_by=ctx.task_id,
    )
    log_accepted(call, task_id)
    ctx.say(f"Waits for the task `{task_id}`, a call of {call.tool}.")
    try:
        outcome = await workflow.execute_child_workflow(
            _TOOL_CALL_WORKFLOW,
            call,
            result_type=ToolOutcome,
            id=task_id,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            memo={memo.SUMMARY: summary},
            search_attributes=search_attributes.of_task(call, summary),
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            static_summary=f"{call.tool} for {ctx.call.tool}",
        )
    except WorkflowAlreadyStartedError:
        return CallOutcome(task_id=task_id, result=ToolResult.failed(_made_before(call.tool, task_id)))
    except ChildWorkflowError as error:
        if is_cancelled_exception(error) and ctx.cancelled:
            raise
        failed = outcome_of(error.cause)
        if failed is None:
            return CallOutcome(task_id=task_id, result=ToolResult.failed(_did_not_end(call.tool, task_id, error)))
        outcome = failed
    if outcome.cost_usd is not None:
        ctx.inner_costs[task_id] = outcome.cost_usd
    result = outcome.result
    size = len(result.model_dump_json())
    if size > MAX_STEP_BYTES:
        result = ToolResult.failed(_too_large(call.tool, task_id, size))
    return CallOutcome(task_id=task_id, result=result)


def _not_carried(tool: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        tool,
        f"{tool} was not called: this call, or its session, was begun before tools could call each other.",
        hint="Call the tool again; in a session, begin another session.",
    )


def _made_before(tool: str, task_id: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.OUTCOME_UNKNOWN,
        tool,
        f"{tool} was called before, as the task {task_id}, and was not called again.",
        hint="Look at this task before you call again.",
    )


def _did_not_end(tool: str, task_id: str, error: ChildWorkflowError) -> ErrorEnvelope:
    if is_cancelled_exception(error):
        message = f"The call of {tool} was cancelled: task {task_id}."
        return ErrorEnvelope.permanent(ErrorCategory.CANCELLED, tool, message)
    return ErrorEnvelope.permanent(
        ErrorCategory.OUTCOME_UNKNOWN,
        tool,
        f"The task {task_id} of {tool} did not end by itself: {error.cause or error}"[:2_000],
        hint="Check what it has done before you call again.",
    )


def _too_large(tool: str, task_id: str, size: int) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"{tool} has answered with {size} bytes; a function can read {MAX_STEP_BYTES}.",
        hint=f"The tool was carried out: the task {task_id} has its answer. Ask for less of it.",
    )
