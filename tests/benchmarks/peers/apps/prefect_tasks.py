"""`python prefect_tasks.py LIMIT`: the task worker. Background tasks, whose parts are tasks with persisted results."""

import sys
from typing import Any

import sandbox_calls
from prefect import task
from prefect.task_worker import serve

read_items = task(sandbox_calls.read_items, persist_result=True)
start_run = task(sandbox_calls.start_run, persist_result=True)
await_run = task(sandbox_calls.await_run, persist_result=True)


@task
async def read(dataset_id: str) -> list[dict[str, Any]]:
    return await sandbox_calls.read_items(dataset_id)


@task
async def run(call_id: str, seconds: float) -> list[dict[str, Any]]:
    run_id = await start_run(call_id, seconds)
    return await read_items(await await_run(run_id))


if __name__ == "__main__":
    serve(read, run, limit=int(sys.argv[1]))
