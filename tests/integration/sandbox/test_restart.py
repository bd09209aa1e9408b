"""`kill -9` of the sandbox: what was accepted stays, and Actors that ran go on."""

import signal
from pathlib import Path

import psutil
import pytest
from apify_client import ApifyClientAsync

from tests.integration.sandbox.server import SandboxServer
from tests.support.eventually import eventually

PROBE = "outlast/probe"


async def waiting_run(client: ApifyClientAsync, file: Path) -> str:
    run = await client.actor(PROBE).start(run_input={"do": "wait-for-file", "file": str(file)})

    async def waits() -> bool:
        found = await client.run(run.id).get()
        return found is not None and found.status_message == "waiting"

    await eventually(waits)
    return run.id


def process_of(run_id: str) -> psutil.Process:
    for process in psutil.process_iter():
        try:
            if process.environ().get("ACTOR_RUN_ID") == run_id and process.name() != "sh":
                return process
        except psutil.Error:
            continue
    raise AssertionError(f"no process of run {run_id}")


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_state_survives(own_server: SandboxServer) -> None:
    client = own_server.client(user_agent_suffix="outlast-op/kept")
    done = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert done is not None
    store = await client.key_value_stores().get_or_create(name="kept")
    await client.key_value_store(store.id).set_record("key", {"kept": True})
    token = own_server.add_user("somebody")

    own_server.kill()
    own_server.start()

    run = await client.run(done.id).get()
    assert run == done
    assert (await client.dataset(done.default_dataset_id).list_items()).count == 3
    await client.dataset(done.default_dataset_id).push_items({"row": "one more"})
    assert (await client.dataset(done.default_dataset_id).list_items(desc=True)).items[0] == {"row": "one more"}
    record = await client.key_value_store("sandbox/kept").get_record("key")
    assert record is not None
    assert record["value"] == {"kept": True}
    assert (await own_server.client(token).user().get()).username == "somebody"  # pyright: ignore[reportOptionalMemberAccess]
    assert own_server.counters()["operations"] == {"kept": [done.id]}


async def test_a_running_actor_is_adopted(own_server: SandboxServer, tmp_path: Path) -> None:
    client = own_server.client()
    run_id = await waiting_run(client, tmp_path / "go")
    own_server.kill()
    own_server.start()
    run = await client.run(run_id).get()
    assert run is not None
    assert run.status == "RUNNING"

    (tmp_path / "go").touch()

    run = await client.run(run_id).wait_for_finish()
    assert run is not None
    assert (run.status, run.exit_code, run.stats.migration_count) == ("SUCCEEDED", 0, 0)
    assert (await client.dataset(run.default_dataset_id).list_items()).items == [{"found": True}]
    log = await client.run(run_id).log().get()
    assert log is not None
    assert log.count("probe begins") == 1
    assert "probe ends" in log


async def test_an_adopted_actor_can_be_aborted(own_server: SandboxServer, tmp_path: Path) -> None:
    client = own_server.client()
    run_id = await waiting_run(client, tmp_path / "never")
    process = process_of(run_id)
    own_server.kill()
    own_server.start()
    await client.run(run_id).abort()
    run = await client.run(run_id).wait_for_finish()
    assert run is not None
    assert run.status == "ABORTED"
    assert has_ended(process)


async def test_how_an_actor_ended_meanwhile_is_found_out(own_server: SandboxServer, tmp_path: Path) -> None:
    client = own_server.client()
    ended, lost = await waiting_run(client, tmp_path / "a"), await waiting_run(client, tmp_path / "b")
    own_server.kill()
    process = process_of(lost)
    shell = process.parent()
    assert shell is not None
    shell.kill()
    process.kill()
    process_of(ended).terminate()
    await eventually(lambda: list(own_server.data_dir.glob(f"runs/*/{ended}/exit-code")))
    own_server.start()

    run = await client.run(ended).get()
    assert run is not None
    assert (run.status, run.exit_code) == ("FAILED", 143)
    run = await client.run(lost).get()
    assert run is not None
    assert (run.status, run.exit_code) == ("FAILED", None)
    assert run.status_message == "The Actor's process ended while the sandbox was not running"


async def test_an_orderly_stop_ends_processes_and_the_next_start_migrates_them(
    own_server: SandboxServer, tmp_path: Path
) -> None:
    client = own_server.client()
    run_id = await waiting_run(client, tmp_path / "go")
    process = process_of(run_id)
    own_server.kill(signal.SIGTERM)
    await eventually(lambda: has_ended(process))
    own_server.start()
    (tmp_path / "go").touch()
    run = await client.run(run_id).wait_for_finish()
    assert run is not None
    assert (run.status, run.stats.migration_count) == ("SUCCEEDED", 1)


async def test_runs_inside_the_sandbox_go_on_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = SandboxServer(tmp_path_factory.mktemp("sandbox") / "data", "--in-process", "outlast/sleeper")
    server.start()
    client = server.client()
    sleeping = await client.actor("outlast/sleeper").start(run_input={"seconds": 2, "steps": 20, "rows": 20})
    aborted = await client.actor("outlast/sleeper").start(run_input={"seconds": 60})
    assert (await client.run(aborted.id).abort(gracefully=True)).status == "ABORTING"
    server.kill()
    server.start()

    run = await client.run(sleeping.id).wait_for_finish()

    assert run is not None
    assert (run.status, run.status_message) == ("SUCCEEDED", "Slept 2 of 2 s")
    rows = (await client.dataset(run.default_dataset_id).list_items()).items
    assert [row["index"] for row in rows] == list(range(20))
    gone = await client.run(aborted.id).wait_for_finish()
    assert gone is not None
    assert gone.status == "ABORTED"
    server.close()


def test_a_second_sandbox_on_the_same_data_is_refused(own_server: SandboxServer) -> None:
    second = SandboxServer(own_server.data_dir)
    with pytest.raises(AssertionError, match="another sandbox is using"):
        second.start()
    second.control.close()
