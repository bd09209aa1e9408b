"""What a message may be, and how its answer is asked for again."""

import httpx

from tests.support.calls import Event
from tests.support.provider_script import Call, by_position, says
from tests.support.provider_server import ProviderServer
from tests.support.service import Service
from tests.support.turns import new_session, streamed


async def repeated(service: Service, session: str, message: str, message_id: str, after: str | None) -> list[Event]:
    """The events of a message that is sent again by a client which has those up to `after`."""
    headers = {"Last-Event-ID": after} if after else {}
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=120, headers=headers) as client:
        return [event async for event in streamed(client, session, message, messageId=message_id)]


async def test_a_repeated_message_goes_on_after_any_event(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    provider.script = by_position(says("Wait. ", Call("hello_world", {"name": "Ann"})), says("Now ", "done."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet.", messageId="m-1")]
    assert seen[-1].name == "finish"
    for position, event in enumerate(seen):
        assert await repeated(service, session, "Greet.", "m-1", event.id) == seen[position + 1 :]


async def test_the_id_of_no_event_begins_no_turn(api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    refused = await api.post(
        f"/v1/sessions/{session}/messages",
        json={"message": "Greet.", "stream": True},
        headers={"Last-Event-ID": "x"},
    )
    assert refused.status_code == 400, refused.text
    assert (await api.get(f"/v1/sessions/{session}")).json()["turns"] == []
