"""Tools with durable steps and waits. Each step that runs adds a line to the file `ran` in the folder of the test."""

import asyncio
import time
from pathlib import Path
from typing import Literal

from outlast import NotApproved, SyncToolContext, ToolContext, tool


class Hiccup(Exception):
    """An error that ends an attempt between two steps."""


def note(folder: str, line: str) -> str:
    with Path(folder, "ran").open("a") as file:
        file.write(f"{line}\n")
    return line


def held(folder: str, line: str) -> str:
    """Note that the step runs, and end it when the test writes the file `go`."""
    note(folder, line)
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return line


@tool(backoff=0.1, retry_on=(Hiccup,))
async def purchase(folder: str, ctx: ToolContext, hiccups: int = 0) -> list[str]:
    """Reserve, charge and ship."""
    first = await ctx.step(note, folder, "reserve")
    second = await ctx.step(note, folder, line="charge")
    if ctx.attempt <= hiccups:
        raise Hiccup
    return [first, second, await ctx.step(note, folder, "ship")]


@tool(backoff=0.1, retry_on=(Hiccup,))
def blocking_order(folder: str, ctx: SyncToolContext) -> list[str]:
    """Reserve, wait and ship, in a thread."""
    first = ctx.step(note, folder, "reserve")
    ctx.sleep(0.1)
    if ctx.attempt <= 1:
        raise Hiccup
    return [first, ctx.step(note, folder, "ship")]


@tool(backoff=0.1)
async def held_order(folder: str, ctx: ToolContext, once: bool = False) -> list[str]:
    """Reserve, and charge in a step that takes as long as the test wants it to."""
    first = await ctx.step(note, folder, "reserve")
    return [first, await ctx.step(held, folder, "charge", at_most_once=once)]


@tool(backoff=0.1, retry_on=(Hiccup,))
async def changing(folder: str, ctx: ToolContext) -> str:
    """Have other arguments in a second attempt."""
    await ctx.step(note, folder, f"attempt {ctx.attempt}")
    raise Hiccup


@tool
async def booking(folder: str, ctx: ToolContext) -> str:
    """Ask, wait for an approval, and sleep between steps."""
    await ctx.step(note, folder, "search")
    seat = await ctx.ask("Which seat?", Literal["window", "aisle"])
    await ctx.sleep(0.5)
    try:
        approved = await ctx.approve(f"Pay for the {seat} seat?", {"price": 30})
    except NotApproved:
        return f"The {seat} seat was not booked."
    await ctx.step(note, folder, "pay")
    return f"Booked a {seat} seat, approved by {approved.by}."


@tool
async def everything_at_once(folder: str, ctx: ToolContext) -> str:
    """Wait for two answers and a sleep at the same time, beside a step."""
    *_, first, second = await asyncio.gather(
        ctx.sleep(0.2), ctx.step(note, folder, "beside"), ctx.ask("One?", int), ctx.ask("Two?", int)
    )
    return str(first + second)
