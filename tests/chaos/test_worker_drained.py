"""SIGTERM of a worker that has work: it takes no more, ends what is short, and hands over what is long."""

from pathlib import Path

from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import FOLLOW, attempts, follower, works_in


async def test_a_worker_told_to_stop_hands_its_runs_over_while_it_ends_what_else_it_does(
    chaos: Chaos, tmp_path: Path
) -> None:
    first, second = chaos.stack.worker, chaos.stack.new_worker("second worker", OUTLAST_QUEUES="runs")
    client = await connect(chaos.stack.temporal_server.address)
    runs = [await chaos.start(seconds=6, mode=mode) for mode in ("default", "openai")]
    held = await chaos.start_call("watched", folder=str(tmp_path))
    await chaos.until_message(held, "Two of three")
    try:
        await second.ready()
        assert [works_in(await follower(client, run), first) for run in runs] == [True, True]
        first.ask_to_stop()

        async def followed_by_the_second() -> bool:
            return all([works_in(await follower(client, run), second) for run in runs])

        await eventually(followed_by_the_second)
        assert first.is_alive
        late = await chaos.start(seconds=0)
        (tmp_path / "go").touch()
        await first.ended()
        assert chaos.books.starts == len(runs), "a worker that was told to stop took new work"
        await first.ready()
        for task in (*runs, late):
            await chaos.expect_right_answer(task)
        chaos.expect_one_run_per_task(tasks=3)
        assert (await chaos.result(held) or {})["structured"]["attempt"] == 1
        for run in runs:
            followed = (await attempts(client, run))[FOLLOW]
            assert works_in(followed.identity, second)
            assert followed.attempt == 2
            assert followed.last_failure.application_failure_info.type == "HandedOver"
    finally:
        second.kill()
