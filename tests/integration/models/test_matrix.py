"""Provider x mask x compression, each through the whole turn: what holds in every cell."""

import itertools
from typing import Any

import httpx
import pytest

from outlast.activities.llm.providers.models import MATRIX
from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, streamed
from tests.support.providers.model_requests import PROVIDERS, each_begins_as_the_one_before, prompt
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.providers.server import SeenRequest
from tests.support.stacks.fixtures import ModelStack

MASK = {"hello_world": True, "read-volume": True, "restore-tool-output": True, "say_message": False}
ACTIVE = sorted(name for name, active in MASK.items() if active)
TOOLS = ["hello_world", "say_message", "read-volume", "restore-tool-output"]
NUMBERS = {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}


def worker_at_it(asked: Asked) -> Step:
    """Calls an active tool, one that is masked in half of the cells, and one with a large answer."""
    if asked.position == 0:
        return says("First. ", Call("hello_world", {"name": "Ann"}), Call("say_message", {"text": "hi"}))
    if asked.position == 1:
        return says("Then. ", Call("read-volume", {"volume": 1}))
    return says("Done.")


def cells() -> list[Any]:
    """Every combination. A usual run takes eight, in which every two values meet each other."""
    found: list[Any] = []
    for number, provider_id in enumerate(PROVIDERS):
        for masked, compression in itertools.product((True, False), repeat=2):
            usual = masked is (compression ^ (number % 2 == 1))
            name = f"{provider_id}-{'masked' if masked else 'unmasked'}-{'compressed' if compression else 'inline'}"
            marks = () if usual else pytest.mark.thorough
            found.append(pytest.param(provider_id, masked, compression, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("provider_id", "masked", "compression"), cells())
async def test_what_holds_in_every_cell(stack: ModelStack, provider_id: str, masked: bool, compression: bool) -> None:
    stack.provider.script = worker_at_it
    begin = len(stack.provider.requests)
    async with httpx.AsyncClient(base_url=stack.service.api_url, trust_env=False, timeout=180) as api:
        session = await new_session(api, providerId=provider_id, tools=TOOLS, output={"compress": compression})
        mask = {"toolMask": MASK} if masked else {}
        seen = [event async for event in streamed(api, session, "Work.", **mask)]
    requests = stack.provider.requests[begin:]
    it_ended_well(seen, requests)
    every_step_finished_with_numbers(seen, masked=masked)
    what_was_active_is_what_could_be_called(seen, requests, provider_id, masked=masked)
    outputs_are_stored_or_sent(seen, requests, compression=compression)
    prompts_begin_with_the_same_bytes(requests)


def it_ended_well(seen: list[Event], requests: list[SeenRequest]) -> None:
    (end,) = named(seen, "finish")
    assert (end["status"], end["reason"], end["steps"]) == ("completed", "stop", 3)
    assert [event.name for event in seen if event.name in ("error", "retry")] == []
    assert [request.refused for request in requests] == [None] * 3


def every_step_finished_with_numbers(seen: list[Event], *, masked: bool) -> None:
    finished = named(seen, "step-finish")
    assert [step["step"] for step in finished] == [1, 2, 3]
    assert [step["finish_reason"] for step in finished] == ["tool_calls", "tool_calls", "stop"]
    for step, before in zip(finished, [None, *finished], strict=False):
        assert set(step["usage"]) == NUMBERS
        assert all(type(number) is int for number in step["usage"].values())
        assert step["usage"]["input_tokens"] > 0
        so_far = before["total_usage"] if before else dict.fromkeys(NUMBERS, 0)
        assert step["total_usage"] == {name: so_far[name] + step["usage"][name] for name in NUMBERS}
        assert sorted(step["active_tools"]) == (ACTIVE if masked else sorted(TOOLS))


def what_was_active_is_what_could_be_called(
    seen: list[Event], requests: list[SeenRequest], provider_id: str, *, masked: bool
) -> None:
    """Where the provider can be told, it is; where not, the call comes to nothing, and the model is told why."""
    is_told = masked and MATRIX[provider_id].limits_active_tools
    for request in requests:
        assert sorted(request.asked.tools) == sorted(TOOLS)
        assert sorted(request.asked.callable_tools) == (ACTIVE if is_told else sorted(TOOLS))
        assert ("tool_choice" in request.body) == is_told
    results: dict[str, dict[str, Any]] = {result["tool"]: result for result in named(seen, "tool-result")}
    assert results["hello_world"]["preview"] == "Hello, Ann!"
    if is_told:
        assert "say_message" not in results
    elif masked:
        error = results["say_message"]["error"]
        assert (error["category"], error["retryable"]) == ("permission", False)
        assert sorted(error["allowed_tools"]) == ACTIVE
    else:
        assert not results["say_message"]["is_error"]
    warned = [step for step in named(seen, "step-finish") if step.get("warnings")]
    assert bool(warned) == (masked and not is_told)


def outputs_are_stored_or_sent(seen: list[Event], requests: list[SeenRequest], *, compression: bool) -> None:
    (volume,) = (result for result in named(seen, "tool-result") if result["tool"] == "read-volume")
    assert not volume["is_error"], volume
    (read,) = requests[2].asked.results
    if compression:
        assert volume["compressed"] is True
        assert volume["locator"] in read
        assert len(read) < 8_000
    else:
        assert "compressed" not in volume
        assert len(read) > 200_000


def prompts_begin_with_the_same_bytes(requests: list[SeenRequest]) -> None:
    """Definitions, static text, and all of the conversation that was there before."""
    assert all(part in prompt(requests[0]) for part in ('"hello_world"', "Work."))
    assert each_begins_as_the_one_before(requests)
