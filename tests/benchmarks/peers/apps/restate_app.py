"""Served by Hypercorn: a Restate service whose handlers wrap each step in `ctx.run_typed`."""

from typing import Any

import restate
import sandbox_calls

calls = restate.Service("Calls")


@calls.handler()
async def read(ctx: restate.Context, order: dict[str, Any]) -> list[dict[str, Any]]:
    return await ctx.run_typed("read_items", sandbox_calls.read_items, dataset_id=order["dataset_id"])


@calls.handler()
async def run(ctx: restate.Context, order: dict[str, Any]) -> list[dict[str, Any]]:
    run_id = await ctx.run_typed(
        "start_run", sandbox_calls.start_run, call_id=order["call_id"], seconds=order["seconds"]
    )
    dataset_id = await ctx.run_typed("await_run", sandbox_calls.await_run, run_id=run_id)
    return await ctx.run_typed("read_items", sandbox_calls.read_items, dataset_id=dataset_id)


app = restate.app(services=[calls])
