"""Who pays for the calls of a turn: the account, never a payment that the model made up."""

import httpx
import pytest

from tests.support.calls.turns import named, new_session, streamed
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service

RUN = {"seconds": 0.1, "steps": 1}
ACTOR = {"actor": "outlast/sleeper", "input": RUN}


@pytest.mark.parametrize("invented", ["made-up", "", 7])
async def test_a_payment_that_a_model_makes_up_is_refused_before_anything_starts(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer, invented: object
) -> None:
    paid = {"skyfire-pay-id": invented}
    provider.script = by_position(
        says(
            Call("call-actor", {**ACTOR, **paid}),
            Call("call-actor", {**ACTOR, "input": {**RUN, **paid}}),
            Call("outlast--sleeper", {**RUN, **paid}),
        ),
        says(Call("call-actor", ACTOR)),
        says("Done."),
    )
    started = service.sandbox.counters["startsAccepted"]
    session = await new_session(api, tools=["call-actor", "outlast/sleeper"])
    seen = [event async for event in streamed(api, session, "Run it.")]
    *refused, run = named(seen, "tool-result")
    assert [result["error"]["category"] for result in refused] == ["payment"] * 3
    assert all("leave it out" in result["error"]["hint"] for result in refused)
    assert not run["is_error"]
    assert service.sandbox.counters["startsAccepted"] == started + 1
