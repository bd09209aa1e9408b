"""Cut connections and killed APIs: nothing is lost, and nothing is started twice."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from outlast.client import AsyncClient, ConnectionFailed, RetryPolicy
from tests.integration.client.conftest import QUICK
from tests.support.eventually import eventually
from tests.support.ports import free_address
from tests.support.processes.forwarder import Forwarder
from tests.support.stacks.mortal_api import MortalApi
from tests.support.stacks.service import Service


class LosesAnswers(Forwarder):
    """Lets the first requests through and cuts the connection when the answer comes."""

    def __init__(self, target: tuple[str, int], lost: int) -> None:
        super().__init__(target)
        self._target_address = target
        self.left = lost

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.left:
            await super()._serve(reader, writer)
            return
        there_reader, there_writer = await asyncio.open_connection(*self._target_address)
        there_writer.write(await reader.read(65_536))
        if await there_reader.read(1):
            self.left -= 1
        there_writer.close()
        writer.close()


@pytest.fixture
async def line(service: Service) -> AsyncIterator[LosesAnswers]:
    address = urlsplit(service.api_url)
    line = LosesAnswers((str(address.hostname), int(address.port or 0)), lost=2)
    await line.mend()
    yield line
    await line.cut()


async def test_a_call_whose_answers_are_lost_is_one_task(line: LosesAnswers, async_client: AsyncClient) -> None:
    async with AsyncClient(line.url, retries=QUICK) as client:
        task = await client.start("outlast--sleeper", {"seconds": 0.1}, session_id="lost-answers")
    assert line.left == 0
    assert [found.id async for found in async_client.list_tasks(session_id="lost-answers")] == [task.id]


async def test_a_lost_answer_to_an_answer_is_no_refusal(line: LosesAnswers, async_client: AsyncClient) -> None:
    task = await async_client.start("pick_colour", {"colours": ["red", "blue"]})

    async def key() -> str | None:
        return next(iter((await async_client.get(task.id)).input_requests or {}), None)

    asked = await eventually(key)
    async with AsyncClient(line.url, retries=QUICK) as client:
        assert (await client.answer(task.id, {"colour": "red"}, key=asked)).id == task.id
    assert "red" in (await async_client.wait(task.id)).text


async def test_a_call_survives_the_death_of_the_api(mortal_api: MortalApi) -> None:
    async with AsyncClient(mortal_api.url, retries=QUICK) as client:
        task = await client.start("outlast--sleeper", {"seconds": 2})
        waiting = asyncio.create_task(client.wait(task.id))
        seen: list[str] = []

        async def follow() -> None:
            async with client.events(task.id) as events:
                async for event in events:
                    seen.extend([event.name] if event.id else [])

        following = asyncio.create_task(follow())
        await eventually(lambda: "created" in seen)
        mortal_api.kill()
        await mortal_api.start()
        assert (await waiting).task.status == "completed"
        await following
    assert sorted(seen) == sorted(set(seen)), "an event came twice"
    assert {"created", "run_started", "task_completed"} <= set(seen)


async def test_waiting_for_a_server_is_told_and_ends(mortal_api: MortalApi) -> None:
    told: list[str | None] = []
    retries = RetryPolicy(request_seconds=0.5, first_pause_seconds=0.05)
    async with AsyncClient(
        mortal_api.url, retries=retries, on_waiting=lambda waiting: told.append(waiting and waiting.reason)
    ) as client:
        await client.tools()
        mortal_api.kill()
        with pytest.raises(ConnectionFailed, match=mortal_api.url):
            await client.tools()
    assert told
    assert mortal_api.url in str(told[0])


async def test_a_server_that_never_answered_is_given_up_soon() -> None:
    async with AsyncClient(free_address(), retries=RetryPolicy(first_contact_seconds=0)) as client:
        with pytest.raises(ConnectionFailed, match="Nothing answers"):
            await client.tools()
