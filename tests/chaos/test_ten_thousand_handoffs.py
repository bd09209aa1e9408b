"""Ten thousand calls wait for their clients on one worker, which dies meanwhile: each gets its own answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.api.access.principal import Principal
from outlast.api.errors import InvalidCall
from outlast.api.services import Services
from outlast.api.tasks.client import TaskClient
from outlast.contracts.tasks import Task, TaskRequest
from outlast.workflows.contracts.questions import InputAnswer
from outlast.workflows.contracts.tool_calls import TaskStatus
from outlast.workflows.tools.extensions import load_extensions
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.stacks.api_server import api_settings, connect
from tests.support.stacks.sandbox import running_sandbox
from tests.support.stacks.service import settings_environment
from tests.support.stacks.temporal import running_temporal

CALLS = 10_000
ANSWERED = 250
"""So many, spread over all of them."""
AT_ONCE = 64
TOOLS = "docs.examples.hello_tools"
ME = Caller(id="local")
PATIENCE_SECONDS = 900

X = TypeVar("X")
Y = TypeVar("Y")


class OneWorker:
    """A Temporal server, one worker to kill, and the client that every front door goes through."""

    def __init__(self, worker: Callable[[], AbstractContextManager[ServedProcess]], temporal: Client) -> None:
        """`worker` starts one."""
        self._start_worker = worker
        self._temporal = temporal
        self._worker: ServedProcess | None = None
        self.processes = ExitStack()

    async def start_worker(self) -> None:
        """Return when it answers."""
        self._worker = self.processes.enter_context(self._start_worker())
        await asyncio.to_thread(self._worker.await_answer)

    def kill_worker(self) -> None:
        """`kill -9`: nothing of it is left on return."""
        assert self._worker is not None
        self._worker.process.kill()
        self._worker.process.wait()

    async def waiting(self) -> int:
        """How many tasks ask something, as task lists count them."""
        query = f"ExecutionStatus = 'Running' AND OutlastTaskStatus = '{TaskStatus.INPUT_REQUIRED.value}'"
        return (await self._temporal.count_workflows(query)).count

    async def wait_for(self, count: int) -> None:
        """Return when exactly so many ask something."""

        async def are_waiting() -> bool:
            waiting = await self.waiting()
            assert waiting == count, f"{waiting} instead of {count} tasks wait"
            return True

        await eventually(are_waiting, PATIENCE_SECONDS, 2)


@pytest.fixture
async def one_worker(tmp_path: Path) -> AsyncIterator[tuple[OneWorker, TaskClient]]:
    """A stack of its own, without an API: this process does what one would do."""
    load_extensions([TOOLS])
    port = free_port()
    with running_temporal(tmp_path) as server, running_sandbox(tmp_path) as sandbox:
        environment = settings_environment(
            server.address,
            sandbox,
            OUTLAST_DATA_DIR=str(tmp_path),
            OUTLAST_WORKER_METRICS_PORT=str(port),
            OUTLAST_TOOLS_FROM=TOOLS,
            OUTLAST_LOG_LEVEL="warning",
        )

        def worker() -> AbstractContextManager[ServedProcess]:
            ready_url = f"http://127.0.0.1:{port}/metrics"
            return started_module(
                "outlast.worker", ready_url=ready_url, log=tmp_path / "worker.log", environment=environment
            )

        temporal = await connect(server.address)
        tasks = Services(api_settings(sandbox), temporal).tasks
        stack = OneWorker(worker, temporal)
        with stack.processes:
            await stack.start_worker()

            async def polls() -> bool:
                return (await tasks.readiness(timeout_seconds=5))[1]

            await eventually(polls, 90)
            yield stack, tasks


async def each(do: Callable[[X], Awaitable[Y]], over: Sequence[X]) -> list[Y]:
    """`do` for each, some at a time, in order."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(entry: X) -> Y:
        async with slots:
            return await do(entry)

    return list(await asyncio.gather(*(one(entry) for entry in over)))


def palette(number: int) -> tuple[str, str]:
    """Colours that no other call has."""
    return f"red {number}", f"blue {number}"


def answer(colour: str) -> dict[str, InputAnswer]:
    return {"pick": InputAnswer(content={"colour": colour})}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_ten_thousand_hand_offs_outlive_their_only_worker(one_worker: tuple[OneWorker, TaskClient]) -> None:
    stack, tasks = one_worker

    async def started(number: int) -> str:
        request = TaskRequest(tool="pick_colour", arguments={"colours": list(palette(number))})
        return (await tasks.start(ME, request)).id

    ids = await each(started, range(CALLS))
    assert len(set(ids)) == CALLS
    await stack.wait_for(CALLS)

    stack.kill_worker()
    assert await stack.waiting() == CALLS
    sample = range(0, CALLS, CALLS // ANSWERED)

    async def asked(number: int) -> Task:
        return await tasks.describe(ME, ids[number])

    for number, task in zip(sample, await each(asked, sample), strict=True):
        assert task.status is TaskStatus.INPUT_REQUIRED
        handoff = (task.input_requests or {})["pick"].handoff
        assert handoff is not None
        assert handoff.parameters == {"colours": list(palette(number))}

    await stack.start_worker()
    refused = ids[CALLS - 1]
    with pytest.raises(InvalidCall):
        await tasks.submit_input(Principal(ME), refused, {"pick": InputAnswer(content={"color": "red"})})

    async def answered(number: int) -> str:
        await tasks.submit_input(Principal(ME), ids[number], answer(palette(number)[number % 2]))
        result = (await tasks.answer(ME, ids[number], wait_seconds=60)).result
        assert result is not None, f"{ids[number]} has no result"
        return result.text

    said = await each(answered, sample)
    assert said == [f"The user likes {palette(number)[number % 2]}." for number in sample]
    await stack.wait_for(CALLS - len(sample))
    assert (await tasks.describe(ME, refused)).status is TaskStatus.INPUT_REQUIRED
    await tasks.submit_input(Principal(ME), refused, answer(palette(CALLS - 1)[0]))
    assert (await tasks.answer(ME, refused, wait_seconds=60)).task.status is TaskStatus.COMPLETED
