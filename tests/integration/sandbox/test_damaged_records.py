"""One damaged record among others: the platform starts, lists are whole, and the record can be replaced and deleted."""

import os
import sqlite3
from contextlib import closing

import pytest
from apify_client import ApifyClientAsync

from tests.integration.sandbox.server import SandboxServer

PROBE = "outlast/probe"
BROKEN = [b"", b'{"id": "cut', b"[]", b'{"another": "form"}']


@pytest.mark.parametrize("broken", [BROKEN[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in BROKEN[1:])])
async def test_a_damaged_record_spoils_no_list_and_can_be_replaced_and_deleted(
    own_server: SandboxServer, broken: bytes
) -> None:
    client = own_server.client(user_agent_suffix="outlast-op/kept")
    runs = [(await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)) for _ in range(2)]
    tasks = [await client.tasks().create(actor_id=PROBE, name=f"task-{number}") for number in range(2)]
    schedules = [await new_schedule(client, number) for number in range(2)]
    queue = client.request_queue((await client.request_queues().get_or_create(name="queue")).id)
    requests = [await queue.add_request({"url": f"https://example.com/{n}", "uniqueKey": str(n)}) for n in range(2)]
    assert all(runs)
    own_server.kill()
    with closing(sqlite3.connect(own_server.data_dir / "sandbox.sqlite")) as database:
        for table, found in (("runs", runs[0]), ("actor_tasks", tasks[0]), ("schedules", schedules[0])):
            assert found is not None
            database.execute(f"UPDATE {table} SET document = ? WHERE id = ?", (broken, found.id))
        database.execute("UPDATE requests SET document = ? WHERE id = ?", (broken, requests[0].request_id))
        database.execute("UPDATE schedules SET next_run_at = 1 WHERE id = ?", (schedules[0].id,))
        database.commit()
    own_server.start()

    assert {one.id for one in (await client.runs().list()).items} == {one.id for one in runs if one}
    assert {one.id for one in (await client.tasks().list()).items} == {one.id for one in tasks}
    assert {one.id for one in (await client.schedules().list()).items} == {one.id for one in schedules}
    assert [one.url for one in (await queue.list_head()).items] == ["https://example.com/1"]
    damaged = await client.task(tasks[0].id).get()
    assert damaged is not None
    assert damaged.title == "Damaged"
    await client.task(tasks[0].id).delete()
    assert (await client.tasks().create(actor_id=PROBE, name="task-0")).title is None
    await client.schedule(schedules[0].id).update(title="mended", cron_expression="0 0 1 1 *")
    await client.schedule(schedules[0].id).delete()
    assert runs[0] is not None
    await client.run(runs[0].id).delete()
    assert len((await client.runs().list()).items) == 1


async def new_schedule(client: ApifyClientAsync, number: int):
    return await client.schedules().create(
        cron_expression="0 0 1 1 *", is_enabled=True, is_exclusive=True, name=f"schedule-{number}"
    )


async def test_rows_that_are_cut_off_are_missing_and_the_others_are_read(own_server: SandboxServer) -> None:
    client = own_server.client(user_agent_suffix="outlast-op/kept")
    dataset = client.dataset((await client.datasets().get_or_create(name="cut")).id)
    await dataset.push_items([{"number": number} for number in range(600)])
    [items] = [path for path in own_server.data_dir.rglob("items.jsonl") if path.stat().st_size]
    os.truncate(items, items.stat().st_size // 2)
    os.truncate(items.with_name("index.bin"), 0)
    found = (await dataset.list_items()).items
    assert [row["number"] for row in found] == list(range(len(found)))
    assert 250 < len(found) < 350
    items.unlink()
    assert (await dataset.list_items()).items == []
