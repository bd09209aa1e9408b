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
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.service import Service


class LosesAnswers(Forwarder):
    """Lets the first requests through and cuts the connection when the answer comes."""

    def __init__(self, target: tuple[str, int], lost: int) -> None:
        super().__init__(target)
        self._target_address = target
        self.left = lost
        self.passed_on = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.left:
            await super()._serve(reader, writer)
            return
        there_reader, there_writer = await asyncio.open_connection(*self._target_address)
        # Headers and body of a request may come apart, and a client may give up: both have to reach the server.
        sending = asyncio.create_task(self._pass_on(reader, there_writer))
        try:
            if await there_reader.read(1):
                self.left -= 1
        finally:
            sending.cancel()
            there_writer.close()
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
            self.passed_on += len(chunk)
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


async def test_a_request_that_comes_in_pieces_is_answered_before_the_line_is_cut(line: LosesAnswers) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(line.url).port)
    body = b'{"tool": "hello_world"}'
    writer.write(b"POST /v1/tasks HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n")
    await writer.drain()
    await eventually(lambda: line.passed_on)
    writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert await reader.read() == b""
    assert line.left == 1
    writer.close()


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
