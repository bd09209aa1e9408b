"""`python prefect_front.py PORT`: a FastAPI application that hands its work to background tasks."""

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from prefect.client.orchestration import PrefectClient, get_client
from prefect.futures import PrefectDistributedFuture
from prefect_tasks import read, run

_LOOK_AGAIN_SECONDS = 2
"""The future waits for an event of the server's, which may be missed under load; then it looks again."""
_PAUSE_SECONDS = 0.02
_clients: list[PrefectClient] = []


@asynccontextmanager
async def lifespan(_: FastAPI):
    async with get_client() as client:
        _clients.append(client)
        yield


app = FastAPI(lifespan=lifespan)


async def result_of(future: PrefectDistributedFuture[Any]) -> Any:
    while True:
        try:
            return await future.result_async(timeout=_LOOK_AGAIN_SECONDS)
        except (RuntimeError, TimeoutError):  # not taken in by the server yet, or not ended
            await asyncio.sleep(_PAUSE_SECONDS)


@app.post("/read")
async def post_read(order: dict[str, Any]) -> list[dict[str, Any]]:
    return await result_of(await run_in_threadpool(read.delay, order["dataset_id"]))


@app.post("/runs")
async def post_run(order: dict[str, Any]) -> dict[str, str]:
    future = await run_in_threadpool(run.delay, order["call_id"], order["seconds"])
    return {"ticket": str(future.task_run_id)}


@app.get("/runs/{ticket}")
async def get_run(ticket: str) -> dict[str, str]:
    state = (await _clients[0].read_task_run(UUID(ticket))).state
    return {"status": state.type.value if state else "UNKNOWN"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
