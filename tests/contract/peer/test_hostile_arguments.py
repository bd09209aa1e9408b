"""Arguments that nobody means well with, for every tool of the mode: each is answered, and none is a defect of ours."""

import asyncio
import json
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import LISTED_BESIDES
from tests.contract.peer.test_answers import called
from tests.contract.peer.test_lists import ALL, listed
from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
_DEEP: Any = 1
for _ in range(60):
    _DEEP = [_DEEP]
TEXTS = [
    " ",
    "..",
    "../../users/me",
    "a/b/c",
    "%2e%2e%2f",
    "x?token=y#z",
    "\u0000",
    "\u202e" * 20,
    "'\"`",
    "x" * 5_000,
    "user~name/../../x",
    "https://docs.apify.com@127.0.0.1/",
    "1e999",
    "NaN",
    "-1",
]
OTHERS: list[Any] = [None, True, -1, 1e300, 10**30, [], {}, {"$sealed": "x"}, _DEEP, ["x"] * 2_000]
AT_ONCE = 8
SHARES = 4
OWN_TOOL = "outlast--sleeper"
"""Some of these values are an input that the Actor takes."""


def arguments_of(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """Every argument of a tool with a value of the wrong kind, or of the right kind and a bad content."""
    names = list(schema["properties"])
    if number < len(TEXTS):
        kinds = {name: schema["properties"][name].get("type") for name in names}
        return {name: TEXTS[number] if kinds[name] == "string" else {"x": TEXTS[number]} for name in names}
    value = OTHERS[number - len(TEXTS)]
    # Without the others, the one that comes first is what is refused.
    return {
        name: value for place, name in enumerate(names) if place % 3 == number % 3 or name in schema.get("required", ())
    }


@pytest.mark.parametrize("tool", ["call-actor", "call-actor-widget"])
async def test_a_name_that_no_actor_has_is_looked_for_and_not_found(both: Both, service: Service, tool: str) -> None:
    """The other arguments are right, so the name is what the call comes to."""
    _, ours = both.wires(MODERN, ALL)
    starts = service.sandbox.counters["startsAccepted"]
    for name in (*TEXTS, "\u00fc" * 3_000, f"outlast/{'y' * 400}:tool"):
        answer = await called(ours, tool, {"actor": name, "input": {}})
        error = answer.get("_meta", {}).get("outlast/error", {})
        assert answer.get("code") == -32602 or (answer["isError"] and error["category"] != "unknown"), (name, answer)
    assert service.sandbox.counters["startsAccepted"] == starts


OPTIONS = ("memory", "timeout", "build", "maxItems", "maxTotalChargeUsd")


async def test_options_that_no_platform_takes_are_refused(both: Both) -> None:
    """Each by itself, where the others are right."""
    _, ours = both.wires(MODERN, ALL)
    values: tuple[Any, ...] = (".5", " ", "x" * 5_000, 1e300, 10**30, 1e-300, "0x10", ["1e9"])
    calls = [(option, value) for option in OPTIONS for value in values]
    given = [{"actor": "outlast/nothing-there", "input": {}, "callOptions": {name: value}} for name, value in calls]
    answers = await asyncio.gather(*(called(ours, "call-actor", each) for each in given))
    for call, answer in zip(calls, answers, strict=True):
        error = answer.get("_meta", {}).get("outlast/error", {})
        assert answer.get("code") == -32602 or (answer["isError"] and error["category"] != "unknown"), (call, answer)


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.thorough) for share in range(1, SHARES))])
async def test_every_tool_answers_whatever_it_is_given(both: Both, service: Service, share: int) -> None:
    """Each share has every tool and every value: what differs is which tool is given which."""
    _, ours = both.wires(MODERN, ALL)
    tools = [tool for tool in await listed(ours) if tool["name"] not in LISTED_BESIDES]
    before, starts = service.sandbox.saved_objects(), service.sandbox.counters["startsAccepted"]
    turns = asyncio.Semaphore(AT_ONCE)
    runs: list[int] = []

    async def answered(tool: dict[str, Any], number: int) -> str | None:
        async with turns:
            given = arguments_of(tool["inputSchema"], number)
            answer = await called(ours, tool["name"], given)
        text = json.dumps(answer)
        error = answer.get("_meta", {}).get("outlast/error", {})
        is_refused = answer.get("code") == -32602 or (answer.get("isError") and error.get("category") != "unknown")
        if is_refused and len(text) < 20_000:
            return None
        if answer.get("isError") is False and tool["name"] == OWN_TOOL:
            runs.append(number)
        return None if answer.get("isError") is False else f"{tool['name']} {str(given)[:200]}: {text[:400]}"

    calls = [
        (tool, number)
        for place, tool in enumerate(tools)
        for number in range(len(TEXTS) + len(OTHERS))
        if (place + number) % SHARES == share
    ]
    found = [line for line in await asyncio.gather(*(answered(*call) for call in calls)) if line]
    assert not found, "\n".join(found)
    assert service.sandbox.saved_objects() == before
    assert service.sandbox.counters["startsAccepted"] == starts + len(runs)
