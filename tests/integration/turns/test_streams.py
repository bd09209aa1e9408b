"""What a reader sees of an answer while the model still writes it, and what one sees who comes later."""

import httpx

from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, streamed, turn_events
from tests.support.providers.script import Call, Hold, by_position, says
from tests.support.providers.server import ProviderServer


def written(events: list[Event]) -> str:
    """The arguments of the call, put together from its pieces."""
    return "".join(delta["arguments"] for delta in named(events, "tool-call-delta"))


async def test_the_arguments_of_a_call_are_read_while_the_model_writes_them(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    call = Call("hello_world", {"name": "Ann"})
    provider.script = by_position(says("Let me greet. ", call, Hold("written")), says("Done."))
    session, seen = await new_session(api), list[Event]()
    async for event in streamed(api, session, "Greet Ann."):
        seen.append(event)
        if event.name == "tool-call-delta" and written(seen) == call.raw:
            assert named(seen, "tool-call") == [], "the model has not ended its answer"
            provider.gate("written").open()
    made = named(seen, "tool-call")[0]
    deltas = named(seen, "tool-call-delta")
    assert {(delta["call_id"], delta["tool"], delta["step"]) for delta in deltas} == {
        (made["call_id"], "hello_world", 1)
    }
    turn = named(seen, "finish")[0]["turn_id"]
    assert [event async for event in turn_events(api, session, turn)] == seen, "a later reader sees the same"
