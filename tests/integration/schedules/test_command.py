"""`outlast schedules` and `outlast saved`, typed by a user, and `client.schedules` beside them."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import outlast
from tests.support.eventually import eventually
from tests.support.processes.terminal import Shell
from tests.support.stacks.service import Service

NEVER = ("--cron", "0 0 29 2 *")


@pytest.fixture
def shell(service: Service, tmp_path: Path) -> Shell:
    return Shell(service, tmp_path)


async def typed(shell: Shell, *arguments: str) -> Any:
    """What a command prints as JSON, or as text where it prints none."""
    ended = await shell.outlast(*arguments)
    assert ended.code == 0, ended.said
    return json.loads(ended.out) if "--json" in arguments else f"{ended.out}{ended.said}"


async def test_a_schedule_is_made_changed_paused_and_backfilled_by_hand(shell: Shell) -> None:
    made = await typed(
        shell, "schedules", "create", "typed", "double", "-a", "number=3", *NEVER, "--tz", "Europe/Prague",
        "--max-usd", "1.5", "--deadline", "1h", "--pause-on", "none", "--note", "by hand", "--json",
    )  # fmt: skip
    assert (made["call"]["arguments"], made["time_zone"], made["note"]) == ({"number": 3}, "Europe/Prague", "by hand")
    assert made["call"]["options"] == {"deadline_seconds": 3600, "budget": {"max_total_charge_usd": "1.5"}}
    assert made["pause_on"] == []
    changed = await typed(
        shell, "schedules", "update", "typed", "--every", "1h", "--overlap", "buffer_one", "--budget", "20", "--json"
    )
    assert "$0 of $20" in await typed(shell, "schedules", "show", "typed")
    assert (changed["every"][0]["seconds"], changed["overlap"]) == (3600, "buffer_one")
    assert changed["call"] == made["call"]
    period = ("--from", "2026-01-01T00:00+00:00", "--until", "2026-01-01T02:00+00:00")
    times = (await typed(shell, "schedules", "times", "typed", *period, "--json"))["times"]
    assert len(times) == 3
    assert "3 times" in await typed(shell, "schedules", "backfill", "typed", *period)

    async def all_done() -> str:
        shown = await typed(shell, "schedules", "show", "typed")
        assert shown.count("✓ completed") == 3, shown
        return shown

    await eventually(all_done)
    assert "is paused" in await typed(shell, "schedules", "pause", "typed", "--reason", "holidays")
    assert "holidays" in await typed(shell, "schedules", "show", "typed")
    assert "is resumed" in await typed(shell, "schedules", "resume", "typed")
    assert "is deleted" in await typed(shell, "schedules", "rm", "typed")
    assert (await shell.outlast("schedules", "show", "typed")).code == 2


async def test_saved_calls_and_batches_are_scheduled_by_hand(shell: Shell) -> None:
    await typed(shell, "saved", "set", "typed", "double", '{"number": 4}', "--note", "by hand")
    assert (await shell.outlast("saved", "run", "typed", "-a", "number=5")).out.strip() == "10"
    assert "double" in await typed(shell, "saved", "ls")
    assert '{"number": 4}' in await typed(shell, "saved", "show", "typed")
    of_saved = await typed(shell, "schedules", "create", "of-saved", "--saved", "typed", "--every", "1h", "--json")
    assert of_saved["saved"] == {"name": "typed", "arguments": {}}
    shell.folder.joinpath("batch.json").write_text('{"tool": "double", "items": [{"arguments": {"number": 1}}]}')
    of_batch = await typed(shell, "schedules", "create", "of-batch", "--batch", "@batch.json", *NEVER, "--json")
    assert len(of_batch["batch"]["items"]) == 1
    assert "is deleted" in await typed(shell, "saved", "rm", "typed")
    for name in ("of-saved", "of-batch"):
        await typed(shell, "schedules", "rm", name)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "x", *NEVER), "something to start"),
        (("create", "x", "double", "--saved", "y", *NEVER), "only one of"),
        (("create", "x", "double", "-a", "number=1"), "never due"),
        (("create", "x", "double", "-a", "number=1", "--cron", "soon"), "five fields"),
        (("update", "no-such-schedule", "--every", "1h"), "no schedule"),
        (("backfill", "x", "--from", "yesterday", "--until", "2026-01-01"), "is not a time"),
    ],
)
async def test_what_cannot_be_is_told(shell: Shell, arguments: tuple[str, ...], says: str) -> None:
    ended = await shell.outlast("schedules", *arguments)
    assert ended.code == 2, ended.said
    assert says in " ".join(ended.said.replace("│", " ").split())


async def test_the_client_does_what_the_command_line_does(service: Service) -> None:
    async with outlast.AsyncClient(service.api_url) as client:
        schedules = client.schedules
        call = {"tool": "outlast/sleeper", "arguments": {"seconds": 0}}
        made = await schedules.create("of-client", call=call, every_seconds=3600, paused=True)
        assert (made.paused, made.call) == (True, {**call, "tool": "outlast--sleeper"})
        assert not (await schedules.resume("of-client")).paused
        assert (await schedules.pause("of-client", "for now")).paused_because == "for now"
        changed = await schedules.update("of-client", budget_usd=2, jitter_seconds=0)
        assert (changed.budget_usd, changed.jitter_seconds, changed.every[0].seconds) == (2, 0, 3600)
        start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC)
        assert await schedules.times("of-client", start, end) == (start, end)
        assert await schedules.backfill("of-client", start, end) == (start, end)

        async def done() -> list[str]:
            recent = (await schedules.get("of-client")).recent
            assert [firing.status for firing in recent] == ["completed"] * 2
            return [str(firing.task_id) for firing in recent]

        ids = await eventually(done, interval_seconds=0.2)

        async def listed() -> bool:
            async with client.list_tasks(schedule_id="of-client") as tasks:
                assert {task.id async for task in tasks} == set(ids)
            async with schedules.list() as found:
                assert "of-client" in [schedule.id async for schedule in found]
            return True

        await eventually(listed, interval_seconds=0.2)
        await asyncio.gather(schedules.delete("of-client"))
        with pytest.raises(outlast.NotFound):
            await schedules.get("of-client")
