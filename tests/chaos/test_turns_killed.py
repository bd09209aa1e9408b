"""`kill -9` in the middle of turns: they end as if nothing had happened, for the platform, the model and the reader."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from outlast.activities.llm.compaction import INSTRUCTIONS
from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, sent, text_of, turn_events
from tests.support.eventually import eventually
from tests.support.providers.script import Asked, Call, Hold, Step, by_position, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack, Part
from tests.support.stacks.retention import all_ended_removed
from tests.support.stacks.sandbox import running_sandbox

provider = provider_fixture(scope="module")


@pytest.fixture(scope="module")
def chaos_stack(tmp_path_factory: pytest.TempPathFactory, provider: ProviderServer) -> Iterator[ChaosStack]:
    folder = tmp_path_factory.mktemp("chaos-turns")
    settings = {
        **provider.environment,
        "OUTLAST_DELTA_SECONDS": "0.2",
        "OUTLAST_MODEL_LIMITS": '{"generic/windowed": {"window": 8000}}',
    }
    with running_sandbox(folder) as sandbox, ChaosStack(folder, sandbox, **settings) as stack:
        yield stack


async def begun(chaos: Chaos, message: str, session: str | None = None) -> tuple[str, str]:
    """Session and turn."""
    session = session or await new_session(chaos.http, tools=["actors", "runs", "dev"])
    async with chaos.http.stream(
        "POST", f"/v1/sessions/{session}/messages", json={"message": message, "stream": True}
    ) as response:
        return session, response.headers["location"].rpartition("/")[2]


async def followed(chaos: Chaos, session: str, turn: str) -> AsyncIterator[Event]:
    """The turn's events for a reader who comes back whenever the connection breaks."""
    after: str | None = None
    while True:
        try:
            async for event in turn_events(chaos.http, session, turn, after=after):
                after = event.id or after
                yield event
                if event.name == "finish":
                    return
        except (httpx.TransportError, AssertionError):
            await chaos.stack.bring_up()


async def reads_the_same(chaos: Chaos, session: str, turn: str, seen: list[Event]) -> None:
    """All but what is not repeated: that a call of the model is failing just now."""
    lasting = [event for event in seen if event.id is not None]
    assert [event async for event in turn_events(chaos.http, session, turn)] == lasting


def parts_of(chaos: Chaos, names: tuple[str, ...]) -> list[Part]:
    return [getattr(chaos.stack, name) for name in names]


@pytest.mark.parametrize(
    "names", [pytest.param(("worker",), marks=pytest.mark.thorough), ("worker", "api", "temporal")], ids="+".join
)
async def test_a_model_that_was_cut_off_is_heard_once(
    chaos: Chaos, provider: ProviderServer, names: tuple[str, ...]
) -> None:
    gate = f"cut-off-{len(names)}"
    provider.script = by_position(says("One two ", Hold(gate), "three."))
    session, turn = await begun(chaos, "Count.")
    seen: list[Event] = []
    async for event in followed(chaos, session, turn):
        seen.append(event)
        if event.name == "text-delta" and not provider.gate(gate).is_open:
            for part in parts_of(chaos, names):
                part.kill()
            provider.gate(gate).open()
            await chaos.stack.bring_up()
    assert text_of(seen) == "One two three."
    assert not [retry for retry in named(seen, "retry") if retry.get("discard_text")]
    assert named(seen, "retry")[-1]["error_kind"] in ("timeout", "network", "unknown", "platform", "cancelled")
    assert named(seen, "finish")[0]["status"] == "completed"
    await reads_the_same(chaos, session, turn, seen)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("worker",), marks=pytest.mark.thorough),
        pytest.param(("api",), marks=pytest.mark.thorough),
        pytest.param(("temporal",), marks=pytest.mark.thorough),
        ("worker", "api", "temporal"),
    ],
    ids="+".join,
)
async def test_no_tool_is_called_twice(chaos: Chaos, provider: ProviderServer, names: tuple[str, ...]) -> None:
    run = {"actor": "outlast/sleeper", "input": {"seconds": 5, "steps": 5}}
    provider.script = by_position(
        says("Running. ", Call("call-actor", run), Call("call-actor", run)), says("Both have run.")
    )
    books = chaos.books
    session, turn = await begun(chaos, "Run twice.")
    await eventually(lambda: _both_run(chaos))
    for part in parts_of(chaos, names):
        part.kill()
    await chaos.stack.bring_up()
    seen = [event async for event in followed(chaos, session, turn)]
    assert text_of(seen) == "Running. Both have run."
    assert (books.starts, books.runs_per_operation()) == (2, [1, 1])
    assert [result["is_error"] for result in named(seen, "tool-result")] == [False, False]
    await reads_the_same(chaos, session, turn, seen)


async def test_a_worker_that_lost_its_memory_sends_every_message_once(chaos: Chaos, provider: ProviderServer) -> None:
    """It dies when the store has the messages of a late step, and the history no answer to them."""
    steps, gate = 12, "late step"

    def script(asked: Asked) -> Step:
        held = [Hold(gate)] if asked.position == steps - 2 else []
        greeting = Call("hello_world", {"name": f"Ann {asked.position}"})
        return says("All greeted.") if asked.position == steps - 1 else says(f"{asked.position}.", *held, greeting)

    provider.script = script
    session, turn = await begun(chaos, "Greet them.")
    await eventually(provider.gate(gate).reached.is_set)
    chaos.stack.worker.kill()
    provider.gate(gate).open()
    await chaos.stack.bring_up()
    seen = [event async for event in followed(chaos, session, turn)]
    assert text_of(seen) == "".join(f"{number}." for number in range(steps - 1)) + "All greeted."
    expected = [
        "Greet them.",
        *(said for number in range(steps - 1) for said in (f"{number}.", f"Hello, Ann {number}!")),
    ]
    asked = [message for message in provider.requests[-1].body["messages"] if message["role"] != "system"]
    assert [message["content"] for message in asked] == expected
    kept = [message["parts"][0]["text"] for message in await _messages(chaos, session)]
    assert kept == [*expected, "All greeted."]
    await reads_the_same(chaos, session, turn, seen)


async def test_workers_and_apis_come_and_go(chaos: Chaos, provider: ProviderServer) -> None:
    provider.script = by_position(
        says(Call("hello_world", {"name": "Ann"}), Call("hello_world", {"name": "Bob"})), says("Done.")
    )
    session, turn = await begun(chaos, "Greet.")
    await chaos.stack.worker.restart()
    await chaos.stack.api.restart()
    seen = [event async for event in followed(chaos, session, turn)]
    assert text_of(seen) == "Done."
    tasks = (await chaos.http.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    assert len(tasks) == 2


@pytest.mark.thorough
async def test_a_summary_that_is_recorded_is_not_paid_for_twice(chaos: Chaos, provider: ProviderServer) -> None:
    """The worker dies while the second half of the conversation is summarised; only that is asked again."""
    long, half, gate = "These are many words about one thing. " * 250, "They spoke of one thing.", "second-half"
    provider.script = lambda _: says("Yes.")
    session = await new_session(chaos.http, modelId="windowed", maxOutputTokens=300, tools=["hello_world"])
    for text in ("First", "Second"):
        await sent(chaos.http, session, f"{text}: {long}")
    asked: list[bool] = []

    def summarising(request: Asked) -> Step:
        if INSTRUCTIONS[:40] not in str(request.body):
            return says("Still here.")
        asked.append(half in str(request.body))
        return says(half, *([Hold(gate)] if asked[-1] else []))

    provider.script = summarising
    session_turn = await begun(chaos, f"Third: {long}", session)
    await eventually(lambda: asked == [False, True])
    chaos.stack.worker.kill()
    provider.gate(gate).open()
    await chaos.stack.bring_up()
    seen = [event async for event in followed(chaos, *session_turn)]
    assert asked == [False, True, True]
    assert (text_of(seen), named(seen, "finish")[0]["status"]) == ("Still here.", "completed")
    assert len(named(seen, "compaction")) == 1
    await reads_the_same(chaos, *session_turn, seen)


@pytest.mark.thorough
async def test_a_restart_and_an_idle_week_change_nothing(chaos: Chaos, provider: ProviderServer) -> None:
    """Meanwhile Temporal removes every turn and task that has ended, and nothing is left in any process's memory."""
    provider.script = by_position(
        says("One."), says(Call("hello_world", {"name": "Ann"})), says("Greeted."), says("Three.")
    )
    session = await new_session(chaos.http, tools=["hello_world"])
    turns = [(await sent(chaos.http, session, text))["id"] for text in ("First?", "Greet.")]
    shown = [await _turn(chaos, session, turn) for turn in turns]
    said = await _messages(chaos, session)
    assert [message["role"] for message in said] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    for part in parts_of(chaos, ("worker", "api", "temporal")):
        part.kill()
    await chaos.stack.bring_up()
    await all_ended_removed(await connect(chaos.stack.temporal_server.address), session, count=3)
    assert await _messages(chaos, session) == said
    assert [await _turn(chaos, session, turn) for turn in turns] == shown
    assert (await sent(chaos.http, session, "Third?"))["text"] == "Three."
    asked = [message for message in provider.requests[-1].body["messages"] if message["role"] != "system"]
    assert [message["role"] for message in asked] == [*(message["role"] for message in said), "user"]
    assert [message["content"] for message in asked if message["role"] == "user"] == ["First?", "Greet.", "Third?"]
    assert "Hello, Ann!" in str(asked)


async def _messages(chaos: Chaos, session: str) -> list[dict[str, Any]]:
    answer = await chaos.http.get(f"/v1/sessions/{session}/messages")
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"]


async def _turn(chaos: Chaos, session: str, turn: str) -> dict[str, Any]:
    answer = await chaos.http.get(f"/v1/sessions/{session}/turns/{turn}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _both_run(chaos: Chaos) -> bool:
    return len(chaos.books.running) == 2
