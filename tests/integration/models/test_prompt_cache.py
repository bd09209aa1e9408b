"""What a mask costs: nothing. Conversations of 50 steps, the mask different in each, on a server that counts."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from outlast.activities.conversations.contracts import ModelMessage
from outlast.activities.llm.contracts import Usage
from outlast.activities.llm.providers.requests import canonical_definitions
from tests.support.providers.model_requests import (
    PROVIDERS,
    Heard,
    definition,
    each_begins_as_the_one_before,
    order,
    providers_for,
    results,
    said,
    user,
)
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.providers.server import ProviderServer, SeenRequest, running_provider

STEPS = 50
TOOLS = [definition(f"tool-{number}", "Looks something up, slowly and with care. " * 10) for number in range(12)]
NAMES = [one.name for one in TOOLS]
SYSTEM = "You are a patient researcher, who calls one tool at a time. " * 60
MASKS = list(itertools.islice(itertools.cycle(itertools.combinations(NAMES, 5)), STEPS))


@dataclass(frozen=True)
class Conversation:
    """What came of one."""

    requests: list[SeenRequest]
    usages: list[Usage]

    @property
    def cached_share(self) -> float:
        """Of the tokens sent, how many the cache served."""
        return sum(one.cache_read_tokens for one in self.usages) / sum(one.input_tokens for one in self.usages)


def researcher(asked: Asked) -> Step:
    """Calls one of the tools, an active one where it can know."""
    return says(f"Step {asked.position}. ", Call(asked.callable_tools[0], {"q": f"question {asked.position}"}))


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider(researcher) as server:
        yield server


async def converse(server: ProviderServer, name: str, *, masked: bool, dynamic: bool = False) -> Conversation:
    provider = providers_for(server)[name]
    begin = len(server.requests)
    messages: list[ModelMessage] = [user("Find out everything about durable execution.")]
    usages: list[Usage] = []
    definitions = canonical_definitions(TOOLS)
    for number in range(STEPS):
        asked = order(
            name,
            *messages,
            step=number,
            system=SYSTEM,
            session_id=f"masked-{masked}-{dynamic}",
            model_id=f"masked-{masked}-{dynamic}",
            definitions_json=definitions,
            active_tools=MASKS[number] if masked else None,
            dynamic="It is noon." if dynamic else "",
        )
        step = await provider.call(asked, Heard())
        usages.append(step.usage)
        messages += [said(step), results(step.tool_calls, f"Answer {number}: " + "durable " * 60)]
    await provider.close()
    return Conversation(server.requests[begin:], usages)


ALWAYS = ("openai", "anthropic")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough) for name in PROVIDERS]
)
async def test_a_mask_that_changes_at_every_step_costs_no_cached_token(server: ProviderServer, name: str) -> None:
    plain = await converse(server, name, masked=False)
    masked = await converse(server, name, masked=True)
    assert plain.cached_share > 0.8
    assert masked.cached_share >= 0.95 * plain.cached_share
    with_dynamic_text = await converse(server, name, masked=True, dynamic=True)
    assert with_dynamic_text.cached_share >= 0.95 * plain.cached_share


@pytest.mark.parametrize("name", PROVIDERS)
async def test_requests_share_their_bytes_up_to_the_newest_message(server: ProviderServer, name: str) -> None:
    masked = await converse(server, name, masked=True)
    assert each_begins_as_the_one_before(masked.requests)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_broken_prefix_shows_as_lost_cache_reads(server: ProviderServer, name: str) -> None:
    """The measuring itself: definitions in another order, and nothing is served from the cache."""
    provider = providers_for(server)[name]
    shuffled = json.dumps(list(reversed(json.loads(canonical_definitions(TOOLS)))))
    reads: list[int] = []
    for definitions in (canonical_definitions(TOOLS), canonical_definitions(TOOLS), shuffled):
        step = await provider.call(order(name, system=SYSTEM, definitions_json=definitions), Heard())
        reads.append(step.usage.cache_read_tokens)
    await provider.close()
    assert reads[0] == reads[2] == 0
    assert reads[1] > 1_024
