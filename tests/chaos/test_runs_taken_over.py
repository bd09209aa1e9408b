"""What a killed worker followed is followed on within seconds: nobody waits for its heartbeats."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.deploy.local.processes import answers_http
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import FOLLOW, Part, attempts, follower, starting, works_in

AN_HOUR = "3600"


@pytest.fixture
async def patient(chaos: Chaos, tmp_path: Path) -> AsyncIterator[Chaos]:
    """Its calls' runs are missed after an hour without a heartbeat."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = chaos.stack.environment(OUTLAST_API_PORT=str(port), OUTLAST_RUN_HEARTBEAT_SECONDS=AN_HOUR)
    api = Part("patient api", starting("outlast.api", environment), answers_http(f"{url}/healthz"), tmp_path)
    await api.ready()
    chaos.http.base_url = url
    try:
        yield chaos
    finally:
        chaos.http.base_url = chaos.stack.api_url
        api.kill()


def roll_of(chaos: Chaos) -> Path:
    return Path(chaos.stack.environment()["OUTLAST_DATA_DIR"]) / "workers"


async def test_runs_of_a_killed_worker_are_followed_on_and_those_of_a_stalled_one_are_its_own(patient: Chaos) -> None:
    stack = patient.stack
    first, second = stack.worker, stack.new_worker("second worker", OUTLAST_QUEUES="runs")
    client = await connect(stack.temporal_server.address)
    runs = [await patient.start(seconds=12, mode=mode) for mode in ("default", "openai")]
    try:
        assert [works_in(await follower(client, run), first) for run in runs] == [True, True]
        await second.ready()

        # A stalled worker is not dead. The second one has looked at the roll when it has forgotten this dead one.
        first.suspend()
        dead = roll_of(patient) / "~.worker"
        dead.write_text("1@nowhere/abcd")
        await eventually(lambda: not dead.exists())
        assert [works_in(await follower(client, run), first) for run in runs] == [True, True]

        first.kill()

        async def followed_by_the_second() -> bool:
            return all([works_in(await follower(client, run), second) for run in runs])

        await eventually(followed_by_the_second)
        await first.ready()
        for run in runs:
            await patient.expect_right_answer(run)
            followed = (await attempts(client, run))[FOLLOW]
            assert works_in(followed.identity, second)
            assert followed.attempt == 2
            assert "is dead" in followed.last_failure.message
        patient.expect_one_run_per_task(tasks=2)
    finally:
        second.kill()


async def test_a_worker_that_is_started_again_follows_on_what_it_followed_before(patient: Chaos) -> None:
    runs = [await patient.start(seconds=6) for _ in range(3)]
    client = await connect(patient.stack.temporal_server.address)
    for run in runs:
        await follower(client, run)
    await patient.stack.worker.restart()
    for run in runs:
        await patient.expect_right_answer(run)
    patient.expect_one_run_per_task(tasks=3)


@pytest.mark.thorough
async def test_who_dies_while_temporal_is_away_is_taken_over_from_when_it_is_back(patient: Chaos) -> None:
    stack = patient.stack
    first, second = stack.worker, stack.new_worker("second worker", OUTLAST_QUEUES="runs")
    run = await patient.start(seconds=30)
    client = await connect(stack.temporal_server.address)
    try:
        assert works_in(await follower(client, run), first)
        await second.ready()
        stack.temporal.kill()
        first.kill()
        await eventually(lambda: "Cannot take over yet" in second.log.read_text())
        stack.temporal.start()
        await stack.temporal.ready()

        async def followed_by_the_second() -> bool:
            return works_in(await follower(client, run), second)

        await eventually(followed_by_the_second)
        await first.ready()
        await patient.expect_right_answer(run)
        patient.expect_one_run_per_task()
    finally:
        second.kill()
