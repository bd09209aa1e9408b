"""A run from its start to its end, seen through the real client."""

import asyncio
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

from tests.integration.sandbox.server import TOKEN, SandboxServer
from tests.support.eventually import eventually

PROBE = "outlast/probe"


async def until_it_says(client: ApifyClientAsync, run_id: str, message: str) -> None:
    async def says_it() -> bool:
        run = await client.run(run_id).get()
        return run is not None and message in (run.status_message or "")

    await eventually(says_it)


async def test_a_run_succeeds_with_rows_a_log_and_a_price(client: ApifyClientAsync) -> None:
    started = await client.actor(PROBE).start(run_input={"do": "push", "rows": 5}, memory_mbytes=512)
    assert started.status in {"READY", "RUNNING"}
    assert len(started.id) == 17

    run = await client.run(started.id).wait_for_finish()

    assert run is not None
    assert (run.status, run.exit_code) == ("SUCCEEDED", 0)
    assert run.finished_at is not None
    assert run.finished_at > run.started_at
    assert run.options.memory_mbytes == 512
    assert run.build_number == "1.2.1"
    assert run.stats.compute_units
    assert run.usage_total_usd
    assert run.meta.origin == "API"
    page = await client.dataset(run.default_dataset_id).list_items()
    assert [item["row"] for item in page.items] == [0, 1, 2, 3, 4]
    log = await client.run(run.id).log().get()
    assert log is not None
    assert "probe begins push" in log
    assert "probe ends" in log


async def test_a_run_that_exits_with_another_code_failed(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push", "exitCode": 7}, logger=None)
    assert run is not None
    assert (run.status, run.exit_code) == ("FAILED", 7)
    assert run.status_message == "The Actor exited with code 7"


async def test_the_input_gets_the_defaults_of_the_schema_but_not_its_prefills(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert run is not None
    record = await client.key_value_store(run.default_key_value_store_id).get_record("INPUT")
    assert record is not None
    assert record["value"] == {"do": "push", "rows": 3, "seconds": 60, "exitCode": 0}


async def test_the_process_has_the_platforms_variables_and_no_secret_of_the_sandbox(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "environment"}, logger=None, max_items=9)
    assert run is not None
    record = await client.key_value_store(run.default_key_value_store_id).get_record("ENVIRONMENT")
    assert record is not None
    environment = record["value"]
    assert environment["APIFY_IS_AT_HOME"] == "1"
    assert environment["ACTOR_RUN_ID"] == run.id
    assert environment["ACTOR_MEMORY_MBYTES"] == "256"
    assert environment["ACTOR_MAX_PAID_DATASET_ITEMS"] == "9"
    assert environment["PROBE_SETTING"] == "from actor.json"
    assert "PROBE_SECRET" not in environment
    assert environment["APIFY_TOKEN"] != TOKEN
    assert "the-stack-knows-this" not in environment.values()


async def test_the_token_of_a_run_ends_with_it(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "environment"}, logger=None)
    assert run is not None
    record = await client.key_value_store(run.default_key_value_store_id).get_record("ENVIRONMENT")
    assert record is not None
    with pytest.raises(ApifyApiError, match="not valid"):
        await sandbox.client(record["value"]["APIFY_TOKEN"]).user().get()


@pytest.mark.parametrize("behaviour", ["sleep", "ignore-sigterm"])
async def test_an_aborted_run_ends_with_its_process(client: ApifyClientAsync, behaviour: str) -> None:
    run = await client.actor(PROBE).start(run_input={"do": behaviour})
    await until_it_says(client, run.id, "sleeping")

    answer = await client.run(run.id).abort()
    assert answer.status == "ABORTING"

    ended = await client.run(run.id).wait_for_finish()
    assert ended is not None
    assert ended.status == "ABORTED"
    await eventually(lambda: not _processes_of(run.id))  # a killed process takes a moment to be gone


async def test_a_graceful_abort_lets_the_actor_finish_its_work(client: ApifyClientAsync) -> None:
    run = await client.actor("outlast/sleeper").start(run_input={"seconds": 60, "message": "zzz"})
    await until_it_says(client, run.id, "Slept 0 of 60 s")

    await client.run(run.id).abort(gracefully=True)

    ended = await client.run(run.id).wait_for_finish()
    assert ended is not None
    assert ended.status == "ABORTED"
    assert ended.status_message is not None
    assert ended.status_message.startswith("Aborted after"), "the SDK heard of it on the events websocket"
    output = await client.run(run.id).key_value_store().get_record("OUTPUT")
    assert output is not None
    assert output["value"]["aborted"] is True


async def test_a_run_over_its_time_is_timed_out(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "sleep"}, run_timeout=timedelta(seconds=1), logger=None)
    assert run is not None
    assert run.status == "TIMED-OUT"
    assert run.status_message == "The run was stopped after its time limit of 1 s"
    await eventually(lambda: not _processes_of(run.id))  # a killed process takes a moment to be gone


async def test_a_run_over_its_memory_failed(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "hog"}, memory_mbytes=128, logger=None)
    assert run is not None
    assert run.status == "FAILED"
    assert run.exit_code == 137
    assert run.status_message == "The Actor used more memory than its limit of 128 MB"
    assert run.stats.mem_max_bytes
    assert run.stats.mem_max_bytes > 128 * 1024 * 1024


async def test_an_answer_can_wait_for_the_end(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    run = await client.actor(PROBE).start(run_input={"do": "push"}, wait_for_finish=30)
    assert run.status == "SUCCEEDED"
    requests = sandbox.counters()["requests"]
    assert {"method": "POST", "route": "/v2/actors/:id/runs", "status": 201} in [
        {key: request[key] for key in ("method", "route", "status")} for request in requests
    ]


async def test_max_items_caps_the_default_dataset(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push", "rows": 50}, max_items=4, logger=None)
    assert run is not None
    assert run.options.max_items == 4
    dataset = await client.dataset(run.default_dataset_id).get()
    assert dataset is not None
    assert dataset.item_count == 4


async def test_a_live_log_is_followed_to_its_end(client: ApifyClientAsync, tmp_path: Path) -> None:
    file = tmp_path / "go"
    run = await client.actor(PROBE).start(run_input={"do": "wait-for-file", "file": str(file)})
    seen: list[bytes] = []

    async def follow() -> None:
        async with client.run(run.id).log().stream() as response:
            assert response is not None
            async for chunk in response.aiter_bytes():
                seen.append(chunk)  # noqa: PERF401 (it is watched while it grows)

    following = asyncio.create_task(follow())
    await eventually(lambda: b"probe begins" in b"".join(seen))
    assert b"the file is there" not in b"".join(seen)
    file.touch()
    await asyncio.wait_for(following, 180)
    assert b"the file is there" in b"".join(seen)
    assert b"The run ended: SUCCEEDED" in b"".join(seen)


async def test_an_ended_run_can_be_resurrected(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push", "rows": 2}, logger=None)
    assert run is not None
    await client.run(run.id).resurrect()
    ended = await client.run(run.id).wait_for_finish()
    assert ended is not None
    assert (ended.status, ended.stats.resurrect_count) == ("SUCCEEDED", 1)
    assert ended.started_at == run.started_at
    assert (ended.usage_total_usd or 0) > (run.usage_total_usd or 0), "what the first life has cost is not forgotten"
    dataset = await client.dataset(run.default_dataset_id).get()
    assert dataset is not None
    assert dataset.item_count == 4, "the same storages"


async def test_a_resurrected_run_has_its_time_anew(client: ApifyClientAsync, tmp_path: Path) -> None:
    file = tmp_path / "go"
    run = await client.actor(PROBE).start(
        run_input={"do": "wait-for-file", "file": str(file)}, run_timeout=timedelta(seconds=1)
    )
    first = await client.run(run.id).wait_for_finish()
    assert first is not None
    assert first.status == "TIMED-OUT"
    began = await client.run(run.id).resurrect(memory_mbytes=512, run_timeout=timedelta(seconds=600))
    assert (began.finished_at, began.options.memory_mbytes, began.options.timeout_secs) == (None, 512, 600)
    file.touch()
    ended = await client.run(run.id).wait_for_finish()
    assert ended is not None
    assert ended.status == "SUCCEEDED"
    assert (ended.stats.compute_units or 0) > (first.stats.compute_units or 0)


async def test_a_run_that_dies_with_its_server_has_no_exit_code(
    client: ApifyClientAsync, sandbox: SandboxServer
) -> None:
    run = await client.actor(PROBE).start(run_input={"do": "sleep"})
    await until_it_says(client, run.id, "sleeping")
    sandbox.lose(run.id)
    ended = await client.run(run.id).wait_for_finish()
    assert ended is not None
    assert (ended.status, ended.exit_code) == ("FAILED", None)


async def test_what_cannot_be_resurrected_is_refused(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).start(run_input={"do": "sleep"}, max_items=5)
    with pytest.raises(ApifyApiError, match="have ended"):
        await client.run(run.id).resurrect()
    await until_it_says(client, run.id, "sleeping")
    await client.run(run.id).abort()
    await client.run(run.id).wait_for_finish()
    with pytest.raises(ApifyApiError, match="only be increased"):
        await client.run(run.id).resurrect(max_items=4)
    with pytest.raises(ApifyApiError, match="has no build"):
        await client.run(run.id).resurrect(build="no-such-build")
    ended = await client.run(run.id).get()
    assert ended is not None
    assert (ended.status, ended.stats.resurrect_count) == ("ABORTED", 0)


async def test_an_event_is_charged_once_per_idempotency_key(client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert run is not None
    for _ in range(2):
        await client.run(run.id).charge("row", count=3, idempotency_key="once")
    charged = await client.run(run.id).get()
    assert charged is not None
    assert charged.charged_event_counts == {"row": 3}
    assert charged.usage_total_usd is not None
    assert charged.usage_total_usd >= 1.5


def _processes_of(run_id: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ACTOR_RUN_ID") == run_id:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
