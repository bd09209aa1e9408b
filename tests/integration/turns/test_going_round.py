"""Models that repeat themselves: what they are told, when they are stopped, and what is no repetition."""

from collections.abc import Sequence

import httpx
import pytest

from tests.support.calls.turns import named, new_session, sent, streamed
from tests.support.providers.script import Asked, Call, Step, by_position, says
from tests.support.providers.server import ProviderServer

FAILING_RUN = Call("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0, "failWith": {"exitCode": 3}}})
GREETING = Call("hello_world", {"name": "Ann"})


def look_up(run_id: str, tool: str = "get-actor-run") -> Call:
    return Call(tool, {"runId": run_id})


@pytest.mark.parametrize(
    ("calls", "reminders", "reason", "steps"),
    [
        ([FAILING_RUN], 1, "doom_loop", 2),
        pytest.param([look_up("absent")], 1, "doom_loop", 2, marks=pytest.mark.thorough),
        pytest.param(
            [look_up("absent"), look_up("gone"), look_up("lost"), look_up("no-run")],
            *(0, "stop", 5),
            marks=pytest.mark.thorough,
        ),
        ([look_up("absent"), look_up("absent", "get-actor-log"), look_up("gone")], 0, "stop", 4),
        ([Call("nothing", {"a": 1}), Call("nothing", {"a": 2})], 1, "doom_loop", 2),
        ([GREETING], 1, "doom_loop", 6),
        pytest.param(
            [Call("hello_world", {"name": str(number)}) for number in range(7)],
            *(0, "stop", 8),
            marks=pytest.mark.thorough,
        ),
        ([Call("draw-number")] * 7, 0, "stop", 8),
        ([Call("hello_world", {"name": 7}), GREETING], 0, "stop", 3),
    ],
    ids=[
        "a-run-that-fails",
        "one-unknown-run",
        "four-unknown-runs",
        "two-questions",
        "one-unknown-tool",
        "the-same-answer",
        "other-arguments",
        "other-answers",
        "a-corrected-call",
    ],
)
async def test_a_turn_is_stopped_only_when_it_goes_round(
    api: httpx.AsyncClient, provider: ProviderServer, calls: Sequence[Call], reminders: int, reason: str, steps: int
) -> None:
    end = [says("Done.")] if reason == "stop" else []
    provider.script = by_position(*(says(call) for call in calls), *end)
    seen = [event async for event in streamed(api, await new_session(api), "Go on.")]
    (finished,) = named(seen, "finish")
    assert (finished["reason"], finished["steps"]) == (reason, steps)
    assert len(named(seen, "reminder")) == reminders


async def test_a_model_that_asks_the_same_again_and_again_is_told_to_use_the_answer(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = lambda asked: says("I see.") if "Use the answer" in str(asked.results) else says(GREETING)
    turn = await sent(api, await new_session(api), "Greet.")
    assert (turn["status"], turn["steps"]) == ("completed", 4)


async def test_questions_about_a_failed_run_are_answered(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says(FAILING_RUN), says("It failed."))
    session = await new_session(api)
    await sent(api, session, "Run it.")
    (task,) = (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    run = task["run"]["run_id"]
    questions = [look_up(run), look_up(run, "get-actor-log"), look_up(run), look_up(run, "get-actor-output")]
    provider.script = by_position(says("-"), says("-"), *(says(question) for question in questions), says("Thus."))
    seen = [event async for event in streamed(api, session, "Why?")]
    assert named(seen, "finish")[0]["reason"] == "stop"
    results = named(seen, "tool-result")
    assert [result["is_error"] for result in results if result["tool"] == "get-actor-run"] == [False, False]
    (log,) = [result for result in results if result["tool"] == "get-actor-log"]
    assert not log["is_error"]


async def test_a_call_that_failed_is_corrected_and_the_turn_completes(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """The model reads what is wrong, and calls again with what the error names."""

    def script(asked: Asked) -> Step:
        if not asked.results:
            return says(Call("hello_world", {"name": 7}))
        *_, facts = asked.results[0].splitlines()
        return says(GREETING) if '"violations":[{"path":"/name"' in facts else says("Greeted.")

    provider.script = script
    seen = [event async for event in streamed(api, await new_session(api), "Greet.")]
    wrong, right = named(seen, "tool-result")
    assert (wrong["is_error"], right["is_error"], right["preview"]) == (True, False, "Hello, Ann!")
    assert not named(seen, "reminder")
    assert named(seen, "finish")[0]["reason"] == "stop"
