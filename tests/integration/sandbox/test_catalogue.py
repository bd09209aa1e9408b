"""Actors, their builds, the Store, tasks and the account, as the real client's models accept them."""

import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

PROBE = "outlast/probe"


async def test_an_actor_by_its_name_and_by_its_id(client: ApifyClientAsync) -> None:
    actor = await client.actor(PROBE).get()
    assert actor is not None
    assert (actor.username, actor.name, actor.title) == ("outlast", "probe", "Probe")
    assert actor.default_run_options.memory_mbytes == 256
    same = await client.actor(actor.id).get()
    assert same is not None
    assert same.id == actor.id


async def test_a_build_carries_the_input_schema_and_the_readme(client: ApifyClientAsync) -> None:
    default = await client.actor(PROBE).default_build()
    build = await default.get()
    assert build is not None
    assert build.actor_definition is not None
    assert build.actor_definition.input is not None
    assert build.actor_definition.input["required"] == ["do"]
    assert "quicksilver" in (build.actor_definition.readme or "")
    by_id = await client.build(build.id).get()
    assert by_id is not None
    assert by_id.build_number == "1.2.1"
    assert (await client.actor(PROBE).builds().list()).total == 1
    assert (await client.actor(PROBE).versions().list()).total == 1


async def test_the_store_is_searched_and_paged(client: ApifyClientAsync) -> None:
    everything = await client.store().list()
    assert everything.total >= 4
    first = await client.store().list(limit=1)
    second = await client.store().list(limit=1, offset=1)
    assert first.total == everything.total
    assert [first.items[0].id, second.items[0].id] == [actor.id for actor in everything.items[:2]]
    found = await client.store().list(search="quicksilver")
    assert [actor.name for actor in found.items] == ["probe"]
    assert (await client.store().list(search="no such Actor")).items == []


async def test_input_can_be_checked_without_a_run(client: ApifyClientAsync) -> None:
    assert await client.actor(PROBE).validate_input({"do": "push"})
    with pytest.raises(ApifyApiError, match="is required"):
        await client.actor(PROBE).validate_input({})


async def test_the_account(client: ApifyClientAsync) -> None:
    user = await client.user().get()
    assert user is not None
    assert user.username == "sandbox"
    limits = await client.user().limits()
    assert limits is not None
    assert limits.limits.max_actor_memory_gbytes == 4.0


async def test_runs_are_listed_by_time_status_and_actor(client: ApifyClientAsync) -> None:
    runs = [
        await client.actor(PROBE).call(run_input={"do": "push", "exitCode": code}, logger=None) for code in (0, 1, 0)
    ]
    first, failed, last = (run for run in runs if run is not None)

    listed = await client.runs().list(started_after=first.started_at, desc=True)
    assert [item.id for item in listed.items] == [last.id, failed.id, first.id]
    assert listed.items[0].meta.user_agent is not None
    assert listed.items[0].meta.user_agent.startswith("ApifyClient/")
    by_status = await client.actor(PROBE).runs().list(started_after=first.started_at, status="FAILED")
    assert [item.id for item in by_status.items] == [failed.id]
    page = await client.runs().list(started_after=first.started_at, limit=1, offset=1)
    assert (page.total, [item.id for item in page.items]) == (3, [failed.id])
    before = await client.runs().list(started_after=first.started_at, started_before=failed.started_at)
    assert [item.id for item in before.items] == [first.id, failed.id]
    newest = await client.actor(PROBE).last_run(status="SUCCEEDED").get()
    assert newest is not None
    assert newest.id == last.id
    assert (await client.actor(PROBE).last_run(status="SUCCEEDED").dataset().list_items()).count == 3


async def test_a_deleted_run_is_gone(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert run is not None
    await client.run(run.id).delete()
    assert await client.run(run.id).get() is None
