"""Schedules, through Apify's client: kept, changed, and fired when they come due, once each time."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

from outlast.activities.apify import Run
from tests.integration.sandbox.server import SandboxServer
from tests.support.eventually import eventually

SLEEPER = "outlast/sleeper"


async def sleeper_id(client: ApifyClientAsync) -> str:
    actor = await client.actor(SLEEPER).get()
    assert actor is not None
    return actor.id


def running(actor_id: str, **run_input: Any) -> dict[str, Any]:
    body = {"body": orjson.dumps(run_input).decode(), "contentType": "application/json"}
    return {"type": "RUN_ACTOR", "actorId": actor_id, "runInput": body, "runOptions": {"memoryMbytes": 256}}


async def new_schedule(client: ApifyClientAsync, name: str, *actions: dict[str, Any], **given: Any) -> str:
    settings = {"cron_expression": "0 0 1 1 *", "is_enabled": True, "is_exclusive": False, **given}
    schedule = await client.schedules().create(name=name, actions=list(actions), **settings)
    return schedule.id


async def runs_of(client: ApifyClientAsync, schedule_id: str) -> list[Run]:
    """What a schedule has started, the oldest first."""
    listed = (await client.runs().list(limit=1_000)).items
    found = [await client.run(run.id).get() for run in listed if run.meta.origin == "SCHEDULER"]
    return [run for run in found if run is not None and run.meta.schedule_id == schedule_id]


async def test_a_schedule_that_comes_due_runs_its_actions(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    actor_id = await sleeper_id(client)
    task = await client.tasks().create(
        actor_id=actor_id, name="scheduled", task_input={"seconds": 0, "message": "saved"}
    )
    of_task = {"type": "RUN_ACTOR_TASK", "actorTaskId": task.id, "input": {"rows": 3}}
    schedule_id = await new_schedule(client, "both-kinds", running(actor_id, seconds=0, message="its own"), of_task)
    sandbox.control.post(f"/schedules/{schedule_id}/due").raise_for_status()

    async def both_ended() -> list[Run]:
        runs = await runs_of(client, schedule_id)
        return runs if [run.status for run in runs] == ["SUCCEEDED"] * 2 else []

    runs = await eventually(both_ended)
    assert {run.actor_task_id for run in runs} == {None, task.id}
    rows = {run.actor_task_id: (await client.dataset(run.default_dataset_id).list_items()).items for run in runs}
    assert [row["message"] for row in rows[task.id]] == ["saved"] * 3
    assert [row["message"] for row in rows[None]] == ["its own"]
    schedule = await client.schedule(schedule_id).get()
    assert schedule is not None
    assert schedule.last_run_at is not None
    assert schedule.next_run_at is not None
    assert (schedule.next_run_at.month, schedule.next_run_at.day) == (1, 1)
    assert len(await runs_of(client, schedule_id)) == 2


async def test_an_exclusive_schedule_starts_nothing_beside_its_own_runs(
    client: ApifyClientAsync, sandbox: SandboxServer
) -> None:
    actor_id = await sleeper_id(client)
    schedule_id = await new_schedule(client, "one-at-a-time", running(actor_id, seconds=300), is_exclusive=True)

    async def fired_after(moment: datetime | None) -> datetime | None:
        schedule = await client.schedule(schedule_id).get()
        assert schedule is not None
        return schedule.last_run_at if schedule.last_run_at != moment else None

    sandbox.control.post(f"/schedules/{schedule_id}/due").raise_for_status()
    first = await eventually(lambda: fired_after(None))
    sandbox.control.post(f"/schedules/{schedule_id}/due").raise_for_status()
    await eventually(lambda: fired_after(first))
    (run,) = await runs_of(client, schedule_id)
    await client.run(run.id).abort()


async def test_when_a_schedule_comes_due_follows_its_time_zone(client: ApifyClientAsync) -> None:
    actor_id = await sleeper_id(client)
    schedule_id = await new_schedule(
        client, "nine-in-prague", running(actor_id), cron_expression="0 9 * * *", timezone="Europe/Prague"
    )
    schedule = await client.schedule(schedule_id).get()
    assert schedule is not None
    assert schedule.next_run_at is not None
    assert schedule.next_run_at > datetime.now(UTC)
    assert schedule.next_run_at.astimezone(UTC).hour in (7, 8)
    off = await client.schedule(schedule_id).update(is_enabled=False)
    assert off.next_run_at is None
    monthly = await client.schedule("~nine-in-prague").update(is_enabled=True, cron_expression="@monthly")
    assert monthly.next_run_at is not None
    assert (monthly.id, monthly.timezone) == (schedule_id, "Europe/Prague")
    await client.schedule(schedule_id).delete()
    assert await client.schedule(schedule_id).get() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron_expression": "61 * * * *"}, "not valid"),
        ({"cron_expression": "* * * * * *"}, "five fields"),
        ({"timezone": "Mars/Olympus"}, "time zone"),
        ({"actions": [{"type": "RUN_ACTOR", "actorId": "nothingHere12345x"}]}, "not found"),
        ({"actions": [{"type": "RUN_NOTHING", "actorId": "x"}]}, "RUN_ACTOR"),
    ],
)
async def test_a_wrong_schedule_is_refused(
    client: ApifyClientAsync, sandbox: SandboxServer, given: dict[str, Any], said: str
) -> None:
    body: dict[str, Any] = {"name": "wrong", "cronExpression": "0 0 * * *", "isEnabled": True, "isExclusive": False}
    names = {"cron_expression": "cronExpression"}
    changed = {names.get(name, name): value for name, value in given.items()}
    with pytest.raises(ApifyApiError, match=said):
        await client.http_client.call(
            method="POST", url=f"{sandbox.url}/v2/schedules", json={**body, "actions": [], **changed}
        )


async def test_times_that_passed_while_the_platform_was_away_are_not_made_up_for(own_server: SandboxServer) -> None:
    client = own_server.client()
    schedule_id = await new_schedule(client, "kept", running(await sleeper_id(client), seconds=0))
    own_server.kill()
    own_server.start()
    schedule = await own_server.client().schedule(schedule_id).get()
    assert schedule is not None
    assert (schedule.name, schedule.last_run_at) == ("kept", None)
    assert schedule.next_run_at is not None
