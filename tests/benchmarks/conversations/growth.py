"""A conversation that grows to a megabyte: whether its 200th step costs more than its tenth.

Once as one turn of 200 steps, each with a call of a tool, and once as 200 messages of one step. The provider's own time
counts nowhere: a step's overhead is what is left of it without model and tools, as in `outlast bench tools`.
"""

import asyncio
import itertools
import os
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from outlast.deploy.local.config import Component
from outlast.workflows.contracts.sessions import session_workflow_id, turn_workflow_id
from tests.benchmarks.conversations.in_turns import steps_of_two_sessions, steps_of_two_turns
from tests.benchmarks.conversations.step_costs import (
    Step,
    model_payloads_in,
    per_step,
    steps_in,
    written_in,
    written_to,
)
from tests.benchmarks.conversations.talk import (
    QUESTION_CHARS,
    ROW_CHARS,
    TEXT_CHARS,
    TOOLS,
    new_session,
    row_call,
    text,
)
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, running_system
from tests.support.calls.histories import whole_history
from tests.support.calls.turns import streamed
from tests.support.eventually import eventually
from tests.support.providers.script import Asked, Hold, Reply, Script, says
from tests.support.providers.server import ProviderServer, running_provider

_STEPS = 200
_EARLY, _LATE = slice(5, 15), slice(189, 199)
_MANY_EARLY, _MANY_LATE = slice(5, 45), slice(159, 199)
"""For bytes: a file that is written as a step ends counts for this one or for the next, a tenth of what ten write."""
"""Ten steps about the tenth, and the ten before the last, which may call no tool."""
_KILLED_IN = 150
_GATE = "killed"
_LIMITS = '{"generic/m": {"window": 2000000}}'
"""A known window: every call is counted before it is sent."""


@dataclass(frozen=True)
class _Costs:
    """What the steps of one conversation have cost, in their order."""

    session: str
    steps: list[Step]
    stored_bytes: list[int]
    history_bytes: list[int]
    model_payload_bytes: list[int]
    worker_seconds: list[float]
    message_seconds: list[float]


async def measure_conversation() -> Finding:
    """Have the conversations, kill the worker in the middle of a third one, and compare early steps with late ones."""
    figures: list[Figure] = []
    with running_provider(_in_one_turn(_STEPS)) as provider:
        provider.keeps_all = False
        environment = {**provider.environment, "OUTLAST_MODEL_LIMITS": _LIMITS}
        async with running_system(environment=environment) as system, _api(system) as api:
            dataset = await system.new_dataset(
                [{"number": number, "text": text(number, ROW_CHARS)} for number in range(200)]
            )
            turn = await _one_turn(system, api, provider, dataset)
            figures += _figures("one turn", turn)
            figures.append(Figure("one turn: the conversation at its end", _sent_bytes(provider) / 1e6, "MB"))
            session = await _one_session(system, api, provider)
            figures += _figures("200 messages", session)
            figures.append(Figure("200 messages: the conversation at its end", _sent_bytes(provider) / 1e6, "MB"))
            pairs = list(await steps_of_two_turns(system, api, provider, dataset))
            figures += _overheads("one turn", pairs)
            pairs = list(await steps_of_two_sessions(system, api, provider, session.session))
            figures += _overheads("200 messages", pairs)
            figures += await _killed(system, api, provider, dataset)
    return Finding("conversation", tuple(figures), {"steps": _STEPS, "tools": TOOLS, "killed_in_step": _KILLED_IN})


def _api(system: System) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=str(system.stack.addresses.api_url), trust_env=False, timeout=300)


async def _one_turn(system: System, api: httpx.AsyncClient, provider: ProviderServer, dataset: str) -> _Costs:
    """The last step but one counts as the last: the last may call no tool."""
    provider.script = _in_one_turn(_STEPS, dataset)
    session, worker = await new_session(api), _worker(system)
    began_at, processor = time.time(), [_processor_seconds(worker)]
    turn_id = ""
    async for event in streamed(api, session, "Read them all.", maxSteps=_STEPS):
        if event.name == "step-finish":
            processor.append(_processor_seconds(worker))
        if event.name == "finish":
            assert event.data["steps"] == _STEPS, event.data
            turn_id = event.data["turn_id"]
    return await _costs(system, session, [turn_id], began_at, processor, [])


async def _one_session(system: System, api: httpx.AsyncClient, provider: ProviderServer) -> _Costs:
    provider.script = lambda asked: says(text(asked.position, TEXT_CHARS))
    session, worker = await new_session(api), _worker(system)
    began_at, processor = time.time(), [_processor_seconds(worker)]
    turns: list[str] = []
    seconds: list[float] = []
    for number in range(_STEPS):
        body = {"message": text(number, QUESTION_CHARS), "stream": False}
        asked_at = time.monotonic()
        answer = await api.post(f"/v1/sessions/{session}/messages", json=body)
        seconds.append(time.monotonic() - asked_at)
        assert answer.status_code == 200, answer.text
        processor.append(_processor_seconds(worker))
        turns.append(answer.json()["id"])
    return await _costs(system, session, turns, began_at, processor, seconds)


async def _killed(system: System, api: httpx.AsyncClient, provider: ProviderServer, dataset: str) -> tuple[Figure, ...]:
    """The worker dies while the model answers in step 150: what the next ones are sent and what is kept is whole."""
    steps = _KILLED_IN + 10
    provider.script = _in_one_turn(steps, dataset, hold_in=_KILLED_IN)
    session = await new_session(api)
    turn = asyncio.create_task(_finished(api, session, steps))
    await eventually(provider.gate(_GATE).reached.is_set)
    os.kill(_worker(system), signal.SIGKILL)
    killed_at = time.monotonic()
    provider.gate(_GATE).open()
    kept = await turn
    went_on_after = time.monotonic() - killed_at
    sent = [_content(message) for message in provider.requests[-1].body["messages"] if message["role"] != "system"]
    expected = 2 * (steps - 1) + 1
    return (
        Figure("killed in step 150: messages lost", expected - len(set(sent)), "", Target("exactly", 0)),
        Figure("killed in step 150: messages doubled", len(sent) - len(set(sent)), "", Target("exactly", 0)),
        Figure("killed in step 150: messages kept", len(kept), "", Target("exactly", expected + 1)),
        Figure("killed in step 150: until its end, ten steps later", went_on_after, "s"),
    )


async def _finished(api: httpx.AsyncClient, session: str, steps: int) -> list[dict[str, Any]]:
    body = {"message": "Read them all.", "stream": False, "maxSteps": steps}
    answer = await api.post(f"/v1/sessions/{session}/messages", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"]


async def _costs(
    system: System,
    session: str,
    turns: Sequence[str],
    began_at: float,
    processor: Sequence[float],
    message_seconds: list[float],
) -> _Costs:
    ids = [turn_workflow_id("local", session, turn) for turn in turns]
    history = [event for turn in ids for event in await whole_history(system.temporal, turn)]
    session_history = await whole_history(system.temporal, session_workflow_id("local", session))
    steps = list(steps_in(history))
    return _Costs(
        session=session,
        steps=steps,
        stored_bytes=per_step(steps, written_to(system.data_dir / "outputs"), began_at),
        history_bytes=per_step(steps, [*written_in(history), *written_in(session_history)], began_at),
        model_payload_bytes=per_step(steps, model_payloads_in(history), began_at),
        worker_seconds=[after - before for before, after in itertools.pairwise(processor)],
        message_seconds=message_seconds,
    )


def _figures(name: str, costs: _Costs) -> list[Figure]:
    written = Target("at most", 1.1)
    found = [
        *_bytes_compared(f"{name}: bytes stored per step", costs.stored_bytes, written),
        *_bytes_compared(f"{name}: bytes of histories per step", costs.history_bytes, written),
        *_bytes_compared(f"{name}: of it what the model's activity is given and gives", costs.model_payload_bytes),
        *_compared(f"{name}: worker's processor time", [one * 1_000 for one in costs.worker_seconds], "ms"),
    ]
    if costs.message_seconds:
        model = [step.model_seconds for step in costs.steps]
        rest = [(one - of_it) * 1_000 for one, of_it in zip(costs.message_seconds, model, strict=True)]
        found += _compared(f"{name}: from message to answer, without the model", rest, "ms", middle=statistics.median)
    return found


def _overheads(name: str, pairs: Sequence[tuple[Step, Step]]) -> tuple[Figure, ...]:
    """The ratio is that of neighbours, so that what else the machine did meanwhile counts for both."""
    early, late = (
        statistics.median(step.overhead_seconds * 1_000 for step in side) for side in zip(*pairs, strict=True)
    )
    ratio = statistics.median(later.overhead_seconds / earlier.overhead_seconds for earlier, later in pairs)
    return (
        Figure(f"{name}: overhead of a step in turns, at step 10", early, "ms"),
        Figure(f"{name}: overhead of a step in turns, at step 200", late, "ms"),
        Figure(f"{name}: overhead of a step in turns, ratio", ratio, "", Target("at most", 1.2), better="lower"),
    )


def _compared(
    name: str, values: Sequence[float], unit: str, middle: Any = statistics.fmean
) -> tuple[Figure, Figure, Figure]:
    early, late = middle(values[_EARLY]), middle(values[_LATE])
    return (
        Figure(f"{name}, at step 10", early, unit),
        Figure(f"{name}, at step 200", late, unit),
        Figure(f"{name}, ratio", late / early if early else 0.0),
    )


def _bytes_compared(name: str, values: Sequence[int], target: Target | None = None) -> tuple[Figure, Figure, Figure]:
    early, late = statistics.fmean(values[_MANY_EARLY]), statistics.fmean(values[_MANY_LATE])
    return (
        Figure(f"{name}, steps 6 to 45", early, "bytes"),
        Figure(f"{name}, steps 160 to 199", late, "bytes"),
        Figure(f"{name}, ratio", late / early if early else 0.0, "", target, better="lower" if target else None),
    )


def _in_one_turn(steps: int, dataset: str = "", *, hold_in: int | None = None) -> Script:
    """Say something and read the next row in every step but the last one."""

    def script(asked: Asked) -> Reply:
        position = asked.position
        if position >= steps - 1:
            return says("All read.")
        held = [Hold(_GATE)] if position + 1 == hold_in else []
        return says(text(position, TEXT_CHARS), *held, row_call(dataset, position))

    return script


def _worker(system: System) -> int:
    pid = system.stack.pid(Component.WORKER)
    assert pid is not None
    return pid


def _processor_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _sent_bytes(provider: ProviderServer) -> int:
    return len(provider.requests[-1].raw)


def _content(message: dict[str, Any]) -> str:
    return f"{message['role']} {message['content']}"
