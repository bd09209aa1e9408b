"""The overhead of late steps and of early ones, measured in turns: whatever else the machine does, both have it."""

import asyncio
from collections.abc import Iterator

import httpx

from outlast.workflows.contracts.sessions import turn_workflow_id
from tests.benchmarks.conversations.step_costs import Step, steps_in
from tests.benchmarks.conversations.talk import QUESTION_CHARS, TEXT_CHARS, new_session, row_call, text
from tests.benchmarks.system import System
from tests.support.calls.histories import whole_history
from tests.support.calls.turns import sent, streamed
from tests.support.eventually import eventually
from tests.support.providers.script import Asked, Hold, Reply, says
from tests.support.providers.server import ProviderServer

_PAIRS = 10
_OLD, _YOUNG = 189, 5
"""How many steps come before the first one that is compared."""


async def steps_of_two_turns(
    system: System, api: httpx.AsyncClient, provider: ProviderServer, dataset: str
) -> Iterator[tuple[Step, Step]]:
    """An early and a late step of two turns, ten times: the models wait for each other, their time does not count."""
    begins = {"old": _OLD, "young": _YOUNG}

    def script(asked: Asked) -> Reply:
        name, position = str(asked.body["messages"][1]["content"]), asked.position
        if position == begins[name] + _PAIRS:
            return says("All read.")
        held = [Hold(_gate(name, position))] if position >= begins[name] else []
        return says(text(position, TEXT_CHARS), *held, row_call(dataset, position))

    async def waits(name: str, position: int) -> None:
        if position < begins[name] + _PAIRS:
            await eventually(provider.gate(_gate(name, position)).reached.is_set)

    provider.script = script
    sessions = {name: await new_session(api) for name in begins}
    turns: dict[str, asyncio.Task[str]] = {}
    for name, position in begins.items():
        turns[name] = asyncio.create_task(_turn_id(api, sessions[name], name))
        await waits(name, position)
    for number in range(_PAIRS):
        for name, begin in begins.items():
            provider.gate(_gate(name, begin + number)).open()
            await waits(name, begin + number + 1)
    steps = {name: await _steps(system, sessions[name], await turn) for name, turn in turns.items()}
    return zip(steps["young"][_YOUNG:-1], steps["old"][_OLD:-1], strict=True)


async def steps_of_two_sessions(
    system: System, api: httpx.AsyncClient, provider: ProviderServer, old: str
) -> Iterator[tuple[Step, Step]]:
    """The same of messages: to the session `old`, which has had 200 already, and to a new one after its fifth."""
    provider.script = lambda asked: says(text(asked.position, TEXT_CHARS))
    sessions = {"old": old, "young": await new_session(api)}
    for number in range(_YOUNG):
        await sent(api, sessions["young"], text(number, QUESTION_CHARS))
    steps: dict[str, list[Step]] = {"old": [], "young": []}
    for number in range(_PAIRS):
        for name, session in sessions.items():
            turn = await sent(api, session, text(1_000 + number, QUESTION_CHARS))
            steps[name] += await _steps(system, session, turn["id"])
    return zip(steps["young"], steps["old"], strict=True)


async def _turn_id(api: httpx.AsyncClient, session: str, message: str) -> str:
    """The turn that answers the message, when it has ended."""
    ends = [event.data async for event in streamed(api, session, message, maxSteps=200) if event.name == "finish"]
    turn_id: str = ends[0]["turn_id"]
    return turn_id


async def _steps(system: System, session: str, turn: str) -> list[Step]:
    return list(steps_in(await whole_history(system.temporal, turn_workflow_id("local", session, turn))))


def _gate(name: str, position: int) -> str:
    return f"{name} {position}"
