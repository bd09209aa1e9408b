"""One caller attacks with all it has; another goes on calling tools, and none of its calls fails."""

import httpx

from tests.integration.hostile.conftest import KEYS, MALLORY
from tests.support.eventually import eventually
from tests.support.hostile.pulse import Pulse
from tests.support.hostile.weapons import WEAPONS, under_attack
from tests.support.stacks.service import Service

CALLS = 2


async def test_every_weapon_at_once_and_no_call_of_another_caller_fails(service: Service, pulse: Pulse) -> None:
    before = pulse.beats
    async with under_attack(service.api_url, MALLORY) as attack, service.http(KEYS["bob"]) as bob:
        await eventually(lambda: {weapon for weapon, _ in attack.answers} >= set(WEAPONS))
        for number in range(CALLS):
            await called(bob, f"call {number}")
    assert "500" not in {status for _, status in attack.answers}, attack.answers
    assert pulse.beats > before
    pulse.check()


async def called(bob: httpx.AsyncClient, text: str) -> None:
    """Call a tool, and collect its answer if it takes long."""
    answer = await bob.post("/v1/tools/say/call", json={"arguments": {"text": text}})
    while answer.status_code == 202:
        task = answer.json()["task"]["id"]
        answer = await bob.get(f"/v1/tasks/{task}/result", params={"wait": 1})
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["content"][0]["text"] == text
