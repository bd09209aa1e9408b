"""`kill -9` of the API that `outlast client` is connected to: the client goes on, and a hand-off is answered once."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.client_tools.conftest import ANN, StartClient
from tests.support.calls.questions import asks, call, result, said
from tests.support.calls.tasks import events, started
from tests.support.eventually import eventually
from tests.support.processes.chromium import RunningBrowser
from tests.support.processes.forwarder import Forwarder
from tests.support.processes.module_process import ServedProcess
from tests.support.stacks.api_server import MortalApi, connect
from tests.support.stacks.service import Service

LIST_TABS = call("list_tabs")


class Gate(Forwarder):
    """The way to a browser, shut until it is `opened`; `knocked` is set when a client stands before it."""

    def __init__(self, browser: RunningBrowser) -> None:
        address = urlsplit(browser.url)
        super().__init__((str(address.hostname), int(address.port or 0)))
        self.knocked, self.opened = asyncio.Event(), asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocked.set()
        await self.opened.wait()
        await super()._serve(reader, writer)


@pytest.fixture
async def mortal_api(service: Service, tmp_path: Path) -> AsyncIterator[MortalApi]:
    """Beside the service's own API, which calls and looks on."""
    with ExitStack() as stack:
        settings = {"OUTLAST_API_KEYS": f"ann:{ANN}", "OUTLAST_DEFAULT_TOOLS": "experimental"}
        mortal = MortalApi(service, tmp_path / "mortal-api.log", stack, **settings)
        await mortal.start()
        yield mortal


@pytest.fixture
async def gate(browser: RunningBrowser) -> AsyncIterator[Gate]:
    gate = Gate(browser)
    await gate.mend()
    yield gate
    gate.opened.set()
    await gate.cut()


@pytest.fixture
def worker(service: Service) -> Iterator[ServedProcess]:
    """The worker, which goes on in any case."""
    yield service.worker
    service.worker.process.send_signal(signal.SIGCONT)


async def answers(api: httpx.AsyncClient, task_id: str) -> list[dict[str, Any]]:
    """The answers that an ended task has taken."""
    return [event.data async for event in events(api, task_id) if event.name == "input_answered"]


async def test_an_answer_is_brought_to_the_api_that_comes_back(
    api: httpx.AsyncClient, mortal_api: MortalApi, gate: Gate, start_client: StartClient
) -> None:
    """It dies while the client looks at its browser."""
    client = start_client(gate.url, url=mortal_api.url)
    await client.tells("connected")
    task_id = await started(api, LIST_TABS)
    await gate.knocked.wait()
    mortal_api.kill()
    gate.opened.set()
    assert (await asks(api, task_id))["status"] == "input_required"
    await mortal_api.start()
    assert said(await result(api, task_id)).startswith("# Found 1 tab")
    await client.tells("answered")
    await client.tells("connected", times=2)
    assert len(await answers(api, task_id)) == 1
    assert (client.names().count("asked"), client.names().count("answered")) == (1, 1)


async def test_an_answer_under_way_when_the_api_dies_counts_once(
    service: Service,
    api: httpx.AsyncClient,
    mortal_api: MortalApi,
    gate: Gate,
    worker: ServedProcess,
    start_client: StartClient,
) -> None:
    """It dies when it has handed the answer on, and does not know yet whether it was taken."""
    client = start_client(gate.url, url=mortal_api.url)
    await client.tells("connected")
    task_id = await started(api, LIST_TABS)
    await asks(api, task_id)
    await gate.knocked.wait()
    task = (await connect(service.temporal_address)).get_workflow_handle(task_id)

    async def is_handed_on() -> bool:
        return (await task.describe()).raw_description.HasField("pending_workflow_task")

    worker.process.send_signal(signal.SIGSTOP)
    assert not await is_handed_on()
    gate.opened.set()
    await eventually(is_handed_on)
    mortal_api.kill()
    worker.process.send_signal(signal.SIGCONT)
    await mortal_api.start()
    assert said(await result(api, task_id)).startswith("# Found 1 tab")
    assert len(await answers(api, task_id)) == 1
    await eventually(lambda: client.names().count("answered") + client.names().count("closed") == 1)


@pytest.mark.thorough
async def test_a_client_serves_on_through_many_deaths_of_its_api(
    api: httpx.AsyncClient, mortal_api: MortalApi, browser: RunningBrowser, start_client: StartClient
) -> None:
    client = start_client(browser.url, url=mortal_api.url)
    tasks: list[str] = []
    for death in range(3):
        await client.tells("connected", times=death + 1)
        tasks += [await started(api, LIST_TABS) for _ in range(3)]
        await client.tells("asked", times=3 * death + 1)
        mortal_api.kill()
        await mortal_api.start()
    for task_id in tasks:
        assert said(await result(api, task_id)).startswith("# Found 1 tab")
        assert len(await answers(api, task_id)) == 1
    ended = [name for name in client.names() if name in ("failed", "refused", "error", "declined")]
    assert ended == []
