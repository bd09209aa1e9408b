"""Waits of a tool's function, carried out by its workflow: sleeps, questions, approvals and calls of other tools."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from temporalio import workflow

from outlast.activities.runs.contracts import Budget
from outlast.workflows.contracts.questions import (
    APPROVAL_KEY,
    DECISION_SCHEMA,
    ApprovalAnswer,
    Handoff,
    InputAnswer,
    InputRequest,
)
from outlast.workflows.contracts.steps import StepEntry, Wait, WaitOutcome
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.calls import budget_of_each, call_tool
from outlast.workflows.tools.framework.phases import DEFAULT_DEADLINE


async def wait_out(ctx: HandlerContext, waits: Sequence[Wait]) -> None:
    """Carry out all waits at the same time, and record how they ended. They do not count against the deadline."""
    began, waited = workflow.now(), ctx.questions.waited
    open_waits = [wait for wait in waits if not ctx.journal.has(wait.position)]
    budget = budget_of_each(ctx, sum(wait.kind == "call" for wait in open_waits))
    async with asyncio.TaskGroup() as group:
        for wait in open_waits:
            group.create_task(_wait_out(ctx, wait, budget))
    ctx.questions.waited = waited + (workflow.now() - began)


class OpenWaits:
    """Waits of a function that continues when one of them is over. The others stay open meanwhile."""

    def __init__(self, ctx: HandlerContext) -> None:
        self._ctx = ctx
        self._open: dict[str, tuple[asyncio.Task[None], Budget | None]] = {}

    async def next(self, waits: Sequence[Wait]) -> None:
        """Begin the waits that are not open, and return when one is over. They do not count against the deadline."""
        ctx, began, waited = self._ctx, workflow.now(), self._ctx.questions.waited
        new = [wait for wait in waits if wait.position not in self._open and not ctx.journal.has(wait.position)]
        reserved = [budget.max_total_charge_usd or 0 for _, budget in self._open.values() if budget is not None]
        budget = budget_of_each(ctx, sum(wait.kind == "call" for wait in new), reserved_usd=Decimal(sum(reserved)))
        for wait in new:
            task = asyncio.create_task(_wait_out(ctx, wait, budget))
            self._open[wait.position] = task, budget if wait.kind == "call" else None
        message = next((wait.message for wait in new if wait.kind == "call" and wait.message), None)
        if message is not None:
            ctx.progress(ctx.journal.count, message=message)
        positions = [wait.position for wait in waits]
        await workflow.wait_condition(lambda: any(ctx.journal.has(one) for one in positions) or self._has_failed())
        ctx.questions.waited = waited + (workflow.now() - began)
        for position, (task, _) in list(self._open.items()):
            if task.done():
                del self._open[position]
                task.result()

    def _has_failed(self) -> bool:
        return any(task.done() and (task.cancelled() or task.exception()) for task, _ in self._open.values())

    async def cancel(self) -> None:
        """Cancel what is still open, and wait for its end."""
        for task, _ in self._open.values():
            task.cancel()
        if self._open:
            await asyncio.gather(*(task for task, _ in self._open.values()), return_exceptions=True)


async def _wait_out(ctx: HandlerContext, wait: Wait, budget: Budget) -> None:
    value = None
    if wait.kind == "sleep":
        until = workflow.now() + timedelta(seconds=wait.seconds or 0)
        ctx.say(f"Sleeps until {until:%Y-%m-%d %H:%M:%S} UTC.")
        await workflow.sleep(timedelta(seconds=wait.seconds or 0), summary="sleep of the tool")
    elif wait.kind == "call":
        value = (await call_tool(ctx, wait, budget)).model_dump(mode="json", exclude_none=True)
    else:
        value = (await _asked(ctx, wait)).model_dump(mode="json", exclude_none=True)
    ctx.journal.record(StepEntry(position=wait.position, name=wait.kind, digest=wait.digest, value=value))


async def _asked(ctx: HandlerContext, wait: Wait) -> WaitOutcome:
    """Ask the question of the wait, and return the answer."""
    key = f"{APPROVAL_KEY if wait.kind == 'approve' else 'question'}-{wait.position}"
    time = DEFAULT_DEADLINE if wait.seconds is None else timedelta(seconds=wait.seconds)
    question = InputRequest(message=wait.message, requested_schema=wait.answer_schema)
    if wait.kind == "approve":
        question = _approval(ctx, wait, time)
    try:
        answer = await ctx.ask(key, question, timeout=time)
    except TimeoutError:
        return WaitOutcome(action="timeout")
    by = ctx.questions.answered_by(key)
    if wait.kind == "approve":
        return _verdict(answer, by)
    return WaitOutcome(action=_action(answer), content=answer.content, by=by)


def _approval(ctx: HandlerContext, wait: Wait, time: timedelta) -> InputRequest:
    """The question of an approval. An operator's rule for the tool names the roles that may answer."""
    ruling = ctx.call.permission
    return InputRequest(
        message=wait.message,
        requested_schema=DECISION_SCHEMA,
        handoff=Handoff(
            kind="approval",
            tool=ctx.call.tool,
            phase=APPROVAL_KEY,
            parameters={"arguments": wait.details},
            deadline=workflow.now() + time,
            maker=ctx.call.caller.id,
            approvers=ruling.approvers if ruling is not None else (),
        ),
    )


def _verdict(answer: InputAnswer, by: str | None) -> WaitOutcome:
    if answer.action != "accept":
        return WaitOutcome(action=_action(answer), by=by, note=answer.message)
    decided = ApprovalAnswer.model_validate(answer.content)
    return WaitOutcome(action="accept" if decided.decision == "yes" else "decline", by=by, note=decided.note)


def _action(answer: InputAnswer) -> Literal["accept", "decline", "cancel"]:
    return answer.action if answer.action in ("accept", "decline") else "cancel"
