"""What a reader sees of an answer while the model still writes it, and what one sees who comes later."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.api.temporal import history
from outlast.worker.payloads import PayloadLost, PayloadUnavailable
from outlast.workflows.contracts.sessions import turn_workflow_id
from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, streamed, turn_events
from tests.support.providers.script import Call, Hold, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.faulty_history import Fault, with_faults
from tests.support.stacks.retention import removed
from tests.support.stacks.service import Service


def written(events: list[Event]) -> str:
    """The arguments of the call, put together from its pieces."""
    return "".join(delta["arguments"] for delta in named(events, "tool-call-delta"))


async def test_the_arguments_of_a_call_are_read_while_the_model_writes_them(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    calls = [Call("hello_world", {"name": "Ann"}), Call("say", {"text": "Hello."})]
    provider.script = by_position(says("Let me greet. ", *calls, Hold("written")), says("Done."))
    session, seen = await new_session(api), list[Event]()
    async for event in streamed(api, session, "Greet Ann."):
        seen.append(event)
        if event.name == "tool-call-delta" and written(seen) == "".join(call.raw for call in calls):
            assert named(seen, "tool-call") == [], "the model has not ended its answer"
            provider.gate("written").open()
    assert {delta["step"] for delta in named(seen, "tool-call-delta")} == {1}
    for made, call in zip(named(seen, "tool-call"), calls, strict=True):
        own = [event for event in seen if event.data.get("call_id") == made["call_id"]]
        assert (written(own), {event.data["tool"] for event in own}) == (call.raw, {call.name})
    turn = named(seen, "finish")[0]["turn_id"]
    assert [event async for event in turn_events(api, session, turn)] == seen, "a later reader sees the same"


def refused(status: RPCStatusCode) -> RPCError:
    return RPCError("as the test has it", status, b"")


PASSING: list[Fault] = [
    *(
        refused(status)
        for status in RPCStatusCode
        if status.name not in ("OK", "ALREADY_EXISTS", "PERMISSION_DENIED", "UNIMPLEMENTED", "UNAUTHENTICATED")
    ),
    PayloadUnavailable("The store is away."),
    RuntimeError("Failed client connect: connection refused"),
]


@pytest.fixture
async def temporal(service: Service) -> Client:
    return await connect(service.temporal_address)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OUTAGE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(history, "_LATE_SECONDS", 60.0)  # the fault that comes in place of a page takes time


@asynccontextmanager
async def failing(service: Service, temporal: Client, faults: Sequence[Fault]) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose Temporal client meets `faults`, each after ten entries of a history."""
    settings = api_settings(service.sandbox, data_dir=service.folder)
    async with serving_api(with_faults(temporal, faults, after=10), settings) as api:
        yield api


async def talked(api: httpx.AsyncClient, provider: ProviderServer) -> tuple[str, str, list[Event]]:
    """A session, its turn, and the turn's events."""
    provider.script = by_position(says("Wait. ", Call("hello_world", {"name": "Ann"})), says("Done."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet.")]
    return session, named(seen, "finish")[0]["turn_id"], seen


async def test_whatever_passes_leaves_no_trace_in_a_stream(
    api: httpx.AsyncClient, service: Service, temporal: Client, provider: ProviderServer
) -> None:
    session, turn, seen = await talked(api, provider)
    for fault in PASSING:
        async with failing(service, temporal, [fault, fault]) as other:
            assert [event async for event in turn_events(other, session, turn)] == seen, fault


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refused(RPCStatusCode.PERMISSION_DENIED), ("unknown", True)),
        (refused(RPCStatusCode.DATA_LOSS), ("unknown", True)),
        (RuntimeError("a defect"), ("unknown", True)),
        (PayloadLost("An argument is lost."), ("not_found", False)),
    ],
    ids=["refused", "refused every time", "defect", "lost"],
)
async def test_what_does_not_pass_ends_a_stream_with_the_reason(
    api: httpx.AsyncClient,
    service: Service,
    temporal: Client,
    provider: ProviderServer,
    fault: Exception,
    told: tuple[str, bool],
) -> None:
    session, turn, seen = await talked(api, provider)
    async with failing(service, temporal, [fault] * 9) as other:
        *before, last = [event async for event in turn_events(other, session, turn)]
    assert 0 < len(before) < len(seen)
    assert before == seen[: len(before)]
    assert (last.name, last.id, (last.data["category"], last.data["retryable"])) == ("error", None, told)


@pytest.mark.thorough
async def test_a_stream_whose_turn_is_removed_meanwhile_says_so(
    api: httpx.AsyncClient, service: Service, temporal: Client, provider: ProviderServer
) -> None:
    session, turn, _ = await talked(api, provider)

    async def retention_is_over() -> None:
        await removed(temporal, turn_workflow_id("local", session, turn))
        raise refused(RPCStatusCode.NOT_FOUND)

    async with failing(service, temporal, [retention_is_over]) as other:
        seen = [event async for event in turn_events(other, session, turn)]
    assert (seen[-1].name, seen[-1].id) == ("error", None)
    assert "no longer kept" in seen[-1].data["message"]
