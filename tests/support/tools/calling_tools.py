"""Tools that call other tools. Each that does work adds a line to the file `ran` in the folder of the test."""

import asyncio
from typing import Any

from pydantic import BaseModel

from outlast import CallFailed, ErrorCategory, SyncToolContext, ToolContext, ToolFailure, tool
from tests.support.tools.step_tools import held, note


class Receipt(BaseModel):
    """Return value of `pay`."""

    number: str
    amount: float


@tool
def pay(folder: str, amount: float) -> Receipt:
    """Pay an amount."""
    if amount > 1000:
        raise ToolFailure.of(ErrorCategory.CONFLICT, "That is too much.", hint="Pay less.")
    return Receipt(number=note(folder, "pay"), amount=amount)


@tool(approval="Give it back?")
def give_back(folder: str) -> str:
    """Give the money back, after an approval."""
    return note(folder, "give_back")


@tool(backoff=0.1)
def slow_pay(folder: str) -> str:
    """Pay, and take as long as the test wants it to."""
    return held(folder, "slow_pay")


@tool(retries=0)
def pay_once(folder: str) -> str:
    """Pay, which must not be repeated."""
    return held(folder, "pay_once")


@tool
async def order_of_payment(folder: str, ctx: ToolContext, amount: float = 30) -> str:
    """Pay between two steps."""
    await ctx.step(note, folder, "reserve")
    receipt = await ctx.call(pay, folder=folder, amount=amount)
    await ctx.step(note, folder, "ship")
    return f"Paid {receipt.amount:g}: {receipt.number}."


@tool
def blocking_order_of_payment(folder: str, ctx: SyncToolContext) -> str:
    """Pay, in a thread."""
    return f"Paid {ctx.call(pay, folder=folder, amount=5).amount:g}."


@tool
async def slow_order(folder: str, ctx: ToolContext) -> str:
    """Call a tool that takes its time."""
    await ctx.step(note, folder, "reserve")
    return await ctx.call(slow_pay, folder=folder)


@tool
async def two_payments(folder: str, ctx: ToolContext) -> float:
    """Pay twice at the same time."""
    both = await asyncio.gather(*(ctx.call(pay, folder=folder, amount=amount) for amount in (1, 2)))
    return sum(one.amount for one in both)


@tool
async def two_refunds(folder: str, ctx: ToolContext) -> list[str]:
    """Call a tool with an approval twice at the same time."""
    return list(await asyncio.gather(ctx.call(give_back, folder=folder), ctx.call(give_back, folder=folder)))


@tool
async def several(folder: str, ctx: ToolContext) -> list[str]:
    """Call a function, an Actor, and a tool that there is not, at the same time."""
    run = {"actor": "outlast/sleeper", "input": {"seconds": 0.1}}
    calls = ctx.call(pay, folder=folder, amount=1), ctx.call("call-actor", run), ctx.call("absent")
    ended = await asyncio.gather(*calls, return_exceptions=True)
    return [type(one).__name__ for one in ended]


@tool
async def paid_order(folder: str, ctx: ToolContext, seconds: float) -> str:
    """Run an Actor between two steps."""
    await ctx.step(note, folder, "reserve")
    await ctx.call("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": seconds}})
    return await ctx.step(note, folder, "ship")


@tool
async def call_named(name: str, arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Call any tool, and answer with how it ended."""
    try:
        answer = await ctx.call(name, arguments)
    except CallFailed as error:
        return {"category": error.envelope.category, "message": error.envelope.message, "task_id": error.task_id}
    return {"text": answer.text, "structured": answer.structured}


@tool
async def forward(name: str, arguments: dict[str, Any], ctx: ToolContext) -> str:
    """Call any tool, and answer as it does."""
    return (await ctx.call(name, arguments)).text


@tool
async def deeper(folder: str, ctx: ToolContext) -> str:
    """Call itself without an end."""
    await ctx.step(note, folder, "level")
    return await ctx.call(deeper, folder=folder)


@tool
async def keep_in_vault(word: str, ctx: ToolContext, name: str = "call-actor") -> str:
    """Give an Actor a secret that no argument of this call holds: the word backwards."""
    run_input = {"apiKey": f"key-{word[::-1]}", "note": word}
    arguments = {"actor": "outlast/vault", "input": run_input} if name == "call-actor" else run_input
    return (await ctx.call(name, arguments)).text
