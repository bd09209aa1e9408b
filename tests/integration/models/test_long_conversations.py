"""What long conversations cost through the whole turn: with large outputs, and with a mask that always changes."""

import asyncio
import itertools
import re
from typing import Any

import httpx
import pytest

from tests.support.calls.turns import Json, new_session, sent
from tests.support.providers.model_requests import each_begins_as_the_one_before
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.stacks.fixtures import ModelStack
from tests.support.tools.archive_tool import RECORDS, code_of

VOLUMES = 4
QUESTIONS = [(volume, record) for volume in range(VOLUMES) for record in (0, RECORDS // 2, RECORDS - 1)]
STEPS = 50
NAMES = ["hello_world", "say_message", "read-volume", "shaky", "refusing"]


async def test_compression_sends_a_tenth_and_every_planted_question_is_answered(stack: ModelStack) -> None:
    """The conversation with compression also pays for its restores, and still."""
    inline = await archive_conversation(stack, compression=False)
    compressed = await archive_conversation(stack, compression=True)
    assert inline["usage"]["input_tokens"] > VOLUMES * 50_000
    assert compressed["usage"]["input_tokens"] * 10 <= inline["usage"]["input_tokens"]


async def archive_conversation(stack: ModelStack, *, compression: bool) -> Json:
    """Volume after volume is read, then every question is asked of what the model has; the turn."""
    stack.provider.script = archivist
    begin = len(stack.provider.requests)
    async with httpx.AsyncClient(base_url=stack.service.api_url, trust_env=False, timeout=180) as api:
        session = await new_session(api, tools=["read-volume", "restore-tool-output"])
        turn = await sent(api, session, "Find the codes.", output={"compress": compression})
    assert (turn["status"], turn["reason"]) == ("completed", "stop"), turn
    last = stack.provider.requests[-1].body["messages"]
    read = "\n".join(message["content"] for message in last if message["role"] == "tool")
    for volume, record in QUESTIONS:
        assert code_of(volume, record) in read
    assert len(stack.provider.requests) - begin == turn["steps"]
    assert (turn["steps"] == VOLUMES + 2) == compression
    return turn


def archivist(asked: Asked) -> Step:
    """Reads one volume per step; then restores what it was not shown, all questions at once; then answers."""
    if asked.position < VOLUMES:
        return says(Call("read-volume", {"volume": asked.position}))
    if asked.position > VOLUMES:
        return says("I have them all.")
    locators = [_locator(message) for message in asked.body["messages"] if message["role"] == "tool"]
    wanted = [
        Call("restore-tool-output", {"locator": locator, "query": f"records[?number==`{record}`].code"})
        for volume, record in QUESTIONS
        if (locator := locators[volume]) is not None
    ]
    return says(*wanted) if wanted else says("I have them all.")


def _locator(message: dict[str, Any]) -> str | None:
    content = message["content"]
    found = re.search(r"out_[a-z2-7_]+", content) if len(content) < 100_000 else None
    return found.group() if found else None


@pytest.mark.thorough
async def test_a_mask_that_changes_at_every_step_keeps_the_cache(stack: ModelStack) -> None:
    """Where the provider is told what is active, and where it is not; all conversations at once, to save time."""
    stack.provider.script = lambda asked: says(f"Answer {asked.position}: " + "durable " * 60)
    told_plain, told_masked, plain, masked = await asyncio.gather(
        cached_share(stack, "openai", masked=False),
        cached_share(stack, "openai", masked=True),
        cached_share(stack, "anthropic", masked=False),
        cached_share(stack, "anthropic", masked=True),
    )
    assert min(told_plain, plain) > 0.8
    assert told_masked >= 0.95 * told_plain
    assert masked >= 0.95 * plain


async def cached_share(stack: ModelStack, provider_id: str, *, masked: bool) -> float:
    """Of the tokens that a conversation of `STEPS` steps sends, how many the cache serves."""
    model = f"{provider_id}-masked-{masked}"
    read = total = 0
    async with httpx.AsyncClient(base_url=stack.service.api_url, trust_env=False, timeout=180) as api:
        session = await new_session(
            api, providerId=provider_id, modelId=model, tools=NAMES, instructions="Be patient and careful. " * 200
        )
        for number in range(STEPS):
            mask = {"toolMask": {NAMES[number % 5]: True, NAMES[(number + number // 5 + 1) % 5]: True}}
            usage = (await sent(api, session, f"Question {number}?", **(mask if masked else {})))["usage"]
            read, total = read + usage["cache_read_tokens"], total + usage["input_tokens"]
    requests = [request for request in stack.provider.requests if request.body["model"] == model]
    assert len(requests) == STEPS
    assert each_begins_as_the_one_before(requests)
    if masked and provider_id == "openai":
        choices = [str(request.body["tool_choice"]) for request in requests]
        assert all(one != other for one, other in itertools.pairwise(choices))
    return read / total
