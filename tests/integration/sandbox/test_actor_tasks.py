"""Saved Actor tasks, through Apify's client: kept, changed, run, published."""

from datetime import timedelta
from typing import Any, cast

import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

from tests.integration.sandbox.server import SandboxServer

SLEEPER = "outlast/sleeper"
SAVED = {"seconds": 0.1, "rows": 2, "message": "saved"}


async def new_task(client: ApifyClientAsync, name: str | None = None, **given: Any) -> str:
    """The id of a new task. Without a name the platform chooses one, which only the JavaScript client allows."""
    actor = await client.actor(SLEEPER).get()
    assert actor is not None
    task = await client.tasks().create(actor_id=actor.id, name=cast("str", name), task_input=SAVED, **given)
    return task.id


async def test_a_task_runs_its_actor_with_the_saved_input_and_options(client: ApifyClientAsync) -> None:
    task_id = await new_task(client, name="of-two-rows", memory_mbytes=256, run_timeout=timedelta(seconds=50))
    run = await client.task(task_id).call()
    assert run is not None
    assert (run.status, run.actor_task_id) == ("SUCCEEDED", task_id)
    assert (run.options.memory_mbytes, run.options.timeout_secs) == (256, 50)
    rows = (await client.dataset(run.default_dataset_id).list_items()).items
    assert [row["message"] for row in rows] == ["saved", "saved"]
    other = await client.task(task_id).call(task_input={"rows": 1}, memory_mbytes=512)
    assert other is not None
    assert other.options.memory_mbytes == 512
    rows = (await client.dataset(other.default_dataset_id).list_items()).items
    assert [row["message"] for row in rows] == ["saved"]
    listed = await client.task(task_id).runs().list(desc=True)
    assert [each.id for each in listed.items] == [other.id, run.id]
    last = await client.task(task_id).last_run().get()
    task = await client.task(task_id).get()
    assert last is not None
    assert task is not None
    assert task.stats is not None
    assert (last.id, task.stats.total_runs) == (other.id, 2)


async def test_a_task_is_found_by_its_name_changed_and_deleted(
    client: ApifyClientAsync, sandbox: SandboxServer
) -> None:
    task_id = await new_task(client, name="named-task", title="One")
    named = client.task("~named-task")
    changed = await named.update(name="renamed-task", title="Two", task_input={"seconds": 1})
    assert (changed.id, changed.name, changed.title) == (task_id, "renamed-task", "Two")
    assert await named.get() is None
    assert await client.task(task_id).get_input() == {"seconds": 1}
    assert await client.task(task_id).update_input(task_input={"rows": 3}) == {"rows": 3}
    with pytest.raises(ApifyApiError) as taken:
        await new_task(client, name="renamed-task")
    assert taken.value.status_code == 409
    names = [task.name for task in (await client.tasks().list(limit=100)).items]
    assert "renamed-task" in names
    stranger = sandbox.client(sandbox.control.post("/users", json={"username": "task-stranger"}).json()["token"])
    assert await stranger.task(task_id).get() is None
    await client.task(task_id).delete()
    assert await client.task(task_id).get() is None


async def test_a_task_without_a_name_gets_one_and_wrong_ones_are_refused(client: ApifyClientAsync) -> None:
    found = [await client.task(await new_task(client)).get() for _ in range(2)]
    names = [task.name for task in found if task is not None]
    assert len(set(names)) == 2
    assert names[0].startswith("sleeper-task")
    with pytest.raises(ApifyApiError, match="3 to 63"):
        await new_task(client, name="-x")


async def test_only_a_task_with_a_page_is_published(client: ApifyClientAsync) -> None:
    task_id = await new_task(client)
    with pytest.raises(ApifyApiError, match="publicConfig"):
        await client.task(task_id).publish()
    await client.task(task_id).update(public_config_seo_title="Sleep well")
    published = await client.task(task_id).publish()
    again = await client.task(task_id).publish()
    assert published.is_public
    assert published.public_config == again.public_config
    assert published.public_config is not None
    assert published.public_config.published_at is not None
    hidden = await client.task(task_id).unpublish()
    assert (hidden.is_public, hidden.public_config and hidden.public_config.seo_title) == (False, "Sleep well")
