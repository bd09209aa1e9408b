"""`python dbos_app.py PORT DATABASE_URL`: workflows of steps in a FastAPI application, as DBOS' guides have it."""

import sys
from contextlib import asynccontextmanager
from typing import Any

import sandbox_calls
import uvicorn
from dbos import DBOS, DBOSConfig, SetWorkflowID
from fastapi import FastAPI

read_items = DBOS.step()(sandbox_calls.read_items)
start_run = DBOS.step()(sandbox_calls.start_run)
await_run = DBOS.step()(sandbox_calls.await_run)


@DBOS.workflow()
async def read(dataset_id: str) -> list[dict[str, Any]]:
    return await read_items(dataset_id)


@DBOS.workflow()
async def run(call_id: str, seconds: float) -> list[dict[str, Any]]:
    run_id = await start_run(call_id, seconds)
    return await read_items(await await_run(run_id))


@asynccontextmanager
async def lifespan(_: FastAPI):
    DBOS.launch()
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/read")
async def post_read(order: dict[str, Any]) -> list[dict[str, Any]]:
    return await read(order["dataset_id"])


@app.post("/runs")
async def post_run(order: dict[str, Any]) -> dict[str, str]:
    with SetWorkflowID(order["call_id"]):
        handle = await DBOS.start_workflow_async(run, order["call_id"], order["seconds"])
    return {"ticket": handle.get_workflow_id()}


@app.get("/runs/{ticket}")
async def get_run(ticket: str) -> dict[str, str]:
    status = await DBOS.get_workflow_status_async(ticket)
    return {"status": status.status if status else "UNKNOWN"}


if __name__ == "__main__":
    config: DBOSConfig = {"name": "peer", "system_database_url": sys.argv[2], "log_level": "WARNING"}
    DBOS(config=config)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
