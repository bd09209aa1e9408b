"""The activity in real workers: streamed while it is said, repeated when it breaks, ended when it is cancelled."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.llm.activities import ModelActivities
from outlast.activities.llm.contracts import CallModelInput, ModelStep, TextDelta
from outlast.activities.llm.providers.models import Price
from outlast.activities.llm.streaming import DELTAS_TOPIC
from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.shared_tools import model_activities
from tests.support.eventually import eventually
from tests.support.processes.module_process import ModuleProcess
from tests.support.providers.model_requests import PROVIDERS, Unheard, order, providers_for, settings_for
from tests.support.providers.model_worker import SpeakOnce, connected, speaking_worker
from tests.support.providers.script import Break, Call, Hold, Refusal, Reply, by_position, in_order, says
from tests.support.providers.server import ProviderServer, running_provider
from tests.support.stacks.stack_config import clean_environment

QUEUE_BYTES = 4


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider(by_position(says("Hello."))) as server:
        yield server


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    return await connected(temporal_server.address)


class Reader:
    """Reads the deltas of one call, as they come."""

    def __init__(self, client: Client, task: WorkflowHandle[Any, ModelStep]) -> None:
        self.deltas: list[TextDelta] = []
        self._stream = WorkflowStreamClient.create(client, task.id)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        topic = self._stream.topic(DELTAS_TOPIC, type=TextDelta)
        async for item in topic.subscribe(poll_cooldown=timedelta(milliseconds=20)):
            self.deltas.append(item.data)

    async def to_the_end(self) -> list[TextDelta]:
        """Everything, once the workflow has ended."""
        await self._reading
        return self.deltas

    def heard(self, attempt: int) -> str:
        """What an attempt has said so far."""
        return "".join(delta.text for delta in self.deltas if delta.attempt == attempt)


async def start(client: Client, queue: str, asked: CallModelInput) -> WorkflowHandle[Any, ModelStep]:
    return await client.start_workflow(SpeakOnce.run, asked, id=f"speak-{queue}", task_queue=queue)


@pytest.fixture
async def queue(client: Client, server: ProviderServer) -> AsyncIterator[str]:
    """A queue that a worker in this process serves."""
    name = f"models-{secrets.token_hex(QUEUE_BYTES)}"
    activities = model_activities(settings_for(server))
    async with speaking_worker(client, name, activities):
        yield name
    await activities.close()


@pytest.mark.parametrize("name", PROVIDERS)
async def test_text_is_read_while_the_model_still_speaks(
    client: Client, server: ProviderServer, queue: str, name: str
) -> None:
    server.script = by_position(says("one ", "two ", Hold("middle"), "three ", "four"))
    task = await start(client, queue, order(name))
    reader = Reader(client, task)
    await eventually(lambda: reader.heard(1) == "one two ")
    server.gate("middle").open()
    step = await task.result()
    deltas = await reader.to_the_end()
    assert reader.heard(1) == step.text == "one two three four"
    assert [delta.index for delta in deltas] == list(range(len(deltas)))
    assert {(delta.turn_id, delta.step, delta.attempt) for delta in deltas} == {("turn", 1, 1)}


async def test_a_stream_that_breaks_off_is_said_anew(client: Client, server: ProviderServer, queue: str) -> None:
    server.script = in_order(Reply(("Once upon ", Hold("heard"), Break())), says("Once more."))
    task = await start(client, queue, order("anthropic"))
    reader = Reader(client, task)
    await eventually(lambda: reader.heard(1) == "Once upon ")
    server.gate("heard").open()
    assert (await task.result()).text == "Once more."
    await reader.to_the_end()
    assert reader.heard(2) == "Once more."


async def test_a_cancelled_call_hangs_up(client: Client, server: ProviderServer, queue: str) -> None:
    server.script = by_position(says("I could go on ", Hold("for ever"), "and on"))
    task = await start(client, queue, order("openai"))
    await eventually(server.gate("for ever").reached.is_set)
    await task.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await task.result()
    assert isinstance(caught.value.cause, CancelledError)
    await eventually(server.requests[0].disconnected.is_set)
    assert len(server.requests) == 1


async def test_many_small_pieces_are_few_events(client: Client, server: ProviderServer, queue: str) -> None:
    words = [f"word{number} " for number in range(3_000)]
    server.script = by_position(says(*words))
    task = await start(client, queue, order("openai"))
    assert (await task.result()).text == "".join(words)
    history = await task.fetch_history()
    signals = [
        event for event in history.events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]
    assert 1 <= len(signals) < 100


async def test_a_failure_that_another_attempt_cannot_mend_is_not_retried(
    client: Client, server: ProviderServer, queue: str
) -> None:
    server.script = in_order(Refusal(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"))
    task = await start(client, queue, order("anthropic"))
    with pytest.raises(WorkflowFailureError) as caught:
        await task.result()
    assert isinstance(caught.value.cause, ActivityError)
    error = caught.value.cause.cause
    assert isinstance(error, ApplicationError)
    envelope = ErrorEnvelope.model_validate(error.details[0])
    assert envelope.category is ErrorCategory.VALIDATION
    assert "prompt is too long" in envelope.message
    assert len(server.requests) == 1


class Killable:
    """A worker in a process of its own."""

    def __init__(self, temporal: TemporalServer, queue: str, server: ProviderServer, log: Path) -> None:
        self._arguments = (temporal.address, queue)
        self._environment = clean_environment(**server.environment)
        self._log = log

    @contextmanager
    def running(self) -> Iterator[None]:
        """A worker, killed at the end of the block."""
        module, environment = "tests.support.providers.model_worker", self._environment
        process = ModuleProcess(module, self._arguments, log=self._log, environment=environment)
        try:
            yield
        finally:
            process.kill()
            process.wait()


async def test_a_worker_killed_in_the_middle_of_a_stream_is_replaced(
    client: Client, temporal_server: TemporalServer, server: ProviderServer, tmp_path: Path
) -> None:
    server.script = by_position(says("It was a dark ", Hold("night"), "and stormy night."))
    queue = f"models-{secrets.token_hex(QUEUE_BYTES)}"
    worker = Killable(temporal_server, queue, server, tmp_path / "worker.log")
    task = await start(client, queue, order("openai"))
    reader = Reader(client, task)
    with worker.running():
        await eventually(lambda: reader.heard(1) == "It was a dark ")
    assert server.requests[0].disconnected.wait(180)
    with worker.running():
        await eventually(lambda: reader.heard(2) == "It was a dark ")
        server.gate("night").open()
        step = await task.result()
        await reader.to_the_end()
    assert reader.heard(1) == "It was a dark "
    assert reader.heard(2) == step.text == "It was a dark and stormy night."
    assert len(server.requests) == 2
    assert server.requests[0].raw == server.requests[1].raw


async def test_a_provider_says_when_to_come_back(server: ProviderServer) -> None:
    server.script = in_order(Refusal(429, "rate_limit_error", "Slow down.", {"retry-after": "7"}))
    error = await _failure(server, "anthropic")
    assert (error.type, error.non_retryable) == ("rate_limit", False)
    assert error.next_retry_delay == timedelta(seconds=7)


async def test_a_provider_without_a_key_and_an_unknown_one_are_told_apart(server: ProviderServer) -> None:
    error = await _failure(server, "openai", openai_api_key=None)
    assert (error.type, error.non_retryable) == ("authentication", True)
    error = await _failure(server, "nobody")
    assert (error.type, error.non_retryable) == ("validation", True)
    assert "openai, anthropic, zai, generic" in error.message


async def test_costs_are_told_where_the_price_is_known(server: ProviderServer) -> None:
    providers = providers_for(server)
    price = Price(input=1_000_000, output=10_000_000)
    activities = ModelActivities(providers, prices={"openai/model-1": price}, open_sink=Unheard)
    environment = ActivityEnvironment()
    step = await environment.run(activities.call_model, order("openai"))
    assert step.cost_usd == step.usage.input_tokens + 10 * step.usage.output_tokens
    assert (await environment.run(activities.call_model, order("zai"))).cost_usd is None
    for provider in providers.values():
        await provider.close()


async def test_a_fallback_is_told_in_every_step_and_logged_once(
    server: ProviderServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script = by_position(says(Call("fetch", {"q": "x"})))
    providers = providers_for(server)
    activities = ModelActivities(providers, open_sink=Unheard)
    for step in range(3):
        asked = order("generic", step=step, active_tools=("search",))
        said = await ActivityEnvironment().run(activities.call_model, asked)
        assert said.warnings == ("generic cannot limit the active tools: calls of the others are refused.",)
    assert len([record for record in caplog.records if "falls back" in record.message]) == 1
    await providers["generic"].close()


async def _failure(server: ProviderServer, name: str, **changes: object) -> ApplicationError:
    providers = providers_for(server, **changes)
    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(ModelActivities(providers, open_sink=Unheard).call_model, order(name))
    for provider in providers.values():
        await provider.close()
    return caught.value
