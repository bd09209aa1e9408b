"""A data directory with a part that is missing, empty, cut or another stack's is not a new one: it is refused."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from outlast.deploy.local.config import StackConfig, look_outside
from outlast.deploy.local.data_directory import broken_parts, take_over
from outlast.deploy.local.shared_stack import stop_running
from outlast.deploy.local.state import ensure_sandbox_token, ensure_seal_keys, find_running
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.processes.module_process import started_module
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import RunningStack, running_stack, stack_environment
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import settings_environment
from tests.support.stacks.stack_config import clean_environment
from tests.support.stacks.temporal import running_temporal

Damage = Callable[[Path], object]


class Used(NamedTuple):
    """A data directory that a stack has worked in, which has ended since."""

    data_dir: Path
    task: str


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Used:
    data_dir = tmp_path_factory.mktemp("used") / "data"
    with running_stack(data_dir) as stack, httpx.Client(base_url=url_of(stack), timeout=180) as http:
        arguments = {"actor": "outlast/sleeper", "input": {"seconds": 0, "rows": 500}}
        answer = http.post(
            "/v1/tasks", json={"tool": "call-actor", "arguments": arguments}, headers={"Prefer": "wait=50"}
        )
        task = answer.raise_for_status().json()["task"]
        assert task["status"] == "completed", task
    return Used(data_dir, task["id"])


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts as another stack has them."""
    folder = tmp_path_factory.mktemp("foreign")
    ensure_seal_keys(folder)
    ensure_sandbox_token(folder)
    (folder / "temporal").mkdir()
    (folder / "sandbox").mkdir()
    with closing(sqlite3.connect(folder / "temporal" / "temporal.db")) as database:
        database.execute("CREATE TABLE namespaces (id BLOB, name TEXT)")
        database.execute("INSERT INTO namespaces VALUES (?, 'default')", (os.urandom(16),))
        database.commit()
    with closing(sqlite3.connect(folder / "sandbox" / "sandbox.sqlite")) as database:
        database.executescript("CREATE TABLE users (id TEXT); CREATE TABLE identity (id TEXT)")
        database.execute("INSERT INTO identity VALUES ('another')")
        database.commit()
    (folder / "outputs" / "owner").mkdir(parents=True)
    owner = {"namespace_id": "01a21a08-3565-7c95-819a-000000000000", "keys": {}}
    (folder / "outputs" / "owner" / "default.json").write_text(json.dumps(owner))
    return folder


@pytest.fixture
def copy(used: Used, tmp_path: Path) -> Path:
    """The directory as it was left, to be damaged."""
    return Path(shutil.copytree(used.data_dir, tmp_path / "data"))


def remove(name: str) -> Damage:
    def damage(data_dir: Path) -> None:
        path = data_dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def empty(name: str) -> Damage:
    return lambda data_dir: os.truncate(data_dir / name, 0)


def cut(name: str) -> Damage:
    return lambda data_dir: os.truncate(data_dir / name, (data_dir / name).stat().st_size // 2)


def cut_last(name: str, size: int) -> Damage:
    return lambda data_dir: os.truncate(data_dir / name, (data_dir / name).stat().st_size - size)


def overwrite(name: str) -> Damage:
    """With bytes that say nothing; of a database, pages in the middle of the file."""

    def damage(data_dir: Path) -> None:
        with (data_dir / name).open("r+b") as file:
            file.seek(40_960 if name.startswith(("temporal", "sandbox/")) else 0)
            file.write(os.urandom(12_288))

    return damage


REPLACE = "replace"

REFUSED = {
    "no keys": ("seal.keys", remove, "seal.keys is missing"),
    "empty keys": ("seal.keys", empty, "seal.keys is empty"),
    "cut keys": ("seal.keys", cut, "seal.keys is damaged"),
    "illegible keys": ("seal.keys", overwrite, "seal.keys is damaged"),
    "other keys": ("seal.keys", REPLACE, "seal.keys does not belong to the data"),
    "no database": ("temporal/temporal.db", remove, "temporal/temporal.db is missing"),
    "no folder of the database": ("temporal", remove, "temporal/temporal.db is missing"),
    "empty database": ("temporal/temporal.db", empty, "temporal/temporal.db is empty"),
    "cut database": ("temporal/temporal.db", cut, "temporal/temporal.db is damaged"),
    "damaged database": ("temporal/temporal.db", overwrite, "temporal/temporal.db is damaged"),
    "other database": ("temporal/temporal.db", REPLACE, "temporal/temporal.db is the database of another stack"),
    "no sandbox": ("sandbox", remove, "sandbox/sandbox.sqlite is missing"),
    "no sandbox database": ("sandbox/sandbox.sqlite", remove, "sandbox/sandbox.sqlite is missing"),
    "empty sandbox database": ("sandbox/sandbox.sqlite", empty, "sandbox/sandbox.sqlite is empty"),
    "cut sandbox database": ("sandbox/sandbox.sqlite", cut, "sandbox/sandbox.sqlite is damaged"),
    "damaged sandbox database": ("sandbox/sandbox.sqlite", overwrite, "sandbox/sandbox.sqlite is damaged"),
    "other sandbox database": ("sandbox/sandbox.sqlite", REPLACE, "sandbox/sandbox.sqlite is the database of another"),
    "no datasets": ("sandbox/datasets", remove, "sandbox/datasets is missing"),
    "no key-value stores": ("sandbox/key-value-stores", remove, "sandbox/key-value-stores is missing"),
    "no token": ("sandbox-token", remove, "sandbox-token is missing"),
    "empty token": ("sandbox-token", empty, "sandbox-token is empty"),
    "cut token": ("sandbox-token", cut, "sandbox-token is not the token"),
    "other token": ("sandbox-token", REPLACE, "sandbox-token is not the token"),
    "no outputs": ("outputs", remove, "outputs is missing"),
    "emptied outputs": (
        "outputs/owner",
        remove,
        "outputs is not the folder of stored outputs that this stack used before",
    ),
    "damaged owner of outputs": ("outputs/owner/default.json", cut, "outputs: owner/default.json is damaged"),
    "other outputs": ("outputs", REPLACE, "outputs holds the outputs of another database"),
    "empty version": ("version.json", empty, "version.json is empty or damaged"),
    "cut version": ("version.json", cut, "version.json is empty or damaged"),
}
"""What is damaged, how, and what the refusal says."""
IN_EVERY_RUN = {
    "no keys",
    "no database",
    "empty token",
    "empty sandbox database",
    "other database",
}


def apply(case: str, data_dir: Path, foreign: Path) -> str:
    """Damage a copy; what `outlast up` has to say."""
    name, damage, expected = REFUSED[case]
    if not isinstance(damage, str):
        damage(name)(data_dir)
    elif (data_dir / name).is_dir():
        shutil.rmtree(data_dir / name)
        shutil.copytree(foreign / name, data_dir / name)
    else:
        for log in (data_dir / name).parent.glob(f"{Path(name).name}-*"):
            log.unlink()  # the other database comes without the log of this one
        shutil.copyfile(foreign / name, data_dir / name)
    return expected


@pytest.mark.parametrize("case", REFUSED)
def test_every_damage_is_found(case: str, copy: Path, foreign: Path) -> None:
    assert broken_parts(copy, {}, look_outside({})) == []
    expected = apply(case, copy, foreign)
    assert expected in "\n".join(broken_parts(copy, {}, look_outside({})))


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in IN_EVERY_RUN else pytest.mark.thorough) for case in REFUSED]
)
def test_outlast_up_names_the_part_and_changes_nothing(case: str, copy: Path, foreign: Path) -> None:
    expected = apply(case, copy, foreign)
    before = content_of(copy)
    said = refused("up", copy)
    assert expected in said
    assert "--begin-anew" in said
    assert content_of(copy) == before


def content_of(data_dir: Path) -> dict[str, bytes]:
    """Everything but the files of the start itself, and those that SQLite makes to read a write-ahead log."""
    files = {path.relative_to(data_dir).as_posix(): path for path in data_dir.rglob("*") if path.is_file()}
    kept = {name: path for name, path in files.items() if not name.startswith(("logs/", "stack."))}
    content = {name: path.read_bytes() for name, path in kept.items() if not name.endswith("-shm")}
    return {name: text for name, text in content.items() if text or not name.endswith("-wal")}


def refused(command: str, data_dir: Path, *options: str, **settings: str) -> str:
    """What a command says that does not start a stack, on one line."""
    ended = subprocess.run(
        outlast_command(command, *options, "--data-dir", str(data_dir)),
        env={**stack_environment(), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return " ".join(ended.stderr.split())


def test_a_first_start_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    """Temporal makes its tables one by one, and cannot continue with some of them."""
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    take_over(StackConfig(data_dir=data_dir, environment={}), look_outside({}))
    for name in ("temporal/temporal.db", "sandbox/sandbox.sqlite"):
        (data_dir / name).parent.mkdir(mode=0o700)
        (data_dir / name).touch(0o600)
    assert refused_parts(data_dir) == []
    with closing(sqlite3.connect(data_dir / "temporal" / "temporal.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE shards (shard_id INT)")
    with running_stack(data_dir) as stack:
        assert httpx.get(f"{url_of(stack)}/v1/tasks", timeout=180).raise_for_status().json()["tasks"] == []
    os.truncate(data_dir / "temporal" / "temporal.db", 0)
    assert "temporal/temporal.db is empty" in "\n".join(refused_parts(data_dir))


@pytest.mark.parametrize("name", ["version.json", "outputs/owner/default.json"])
def test_a_folder_in_the_place_of_a_file_is_named(name: str, copy: Path) -> None:
    (copy / name).unlink()
    (copy / name).mkdir()
    said = refused("up", copy)
    assert f"{name} is not a file" in said
    assert "Traceback" not in said


PARTS = {
    "seal.keys": "file",
    "sandbox-token": "file",
    "temporal": "folder",
    "temporal/temporal.db": "file",
    "sandbox": "folder",
    "sandbox/sandbox.sqlite": "file",
    "sandbox/datasets": "folder",
    "outputs": "folder",
    "outputs/owner/default.json": "file",
    "version.json": "file",
    "audit/audit.jsonl": "file",
}


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "used"])
@pytest.mark.parametrize("name", PARTS)
def test_something_else_in_the_place_of_a_part_is_no_beginning(
    name: str, is_new: bool, copy: Path, tmp_path: Path
) -> None:
    """A disk that is not mounted, a file for which a container has made a folder, a pipe."""
    data_dir = tmp_path / "new" if is_new else copy
    path = data_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for put, problem in [
        (lambda: path.symlink_to(tmp_path / "unmounted"), f"is a link to {tmp_path / 'unmounted'}, which is not there"),
        (lambda: path.symlink_to(path), f"is a link to {path}, which is not there"),
        (lambda: os.mkfifo(path), f"is not a {PARTS[name]}"),
        (path.mkdir if PARTS[name] == "file" else path.touch, f"is not a {PARTS[name]}"),
    ]:
        if path.exists() and not path.is_symlink():
            remove(name)(data_dir)
        path.unlink(missing_ok=True)
        put()
        assert any(line.startswith(f"{name} {problem}") for line in refused_parts(data_dir))


@pytest.mark.parametrize("name", ["seal.keys", "outputs", "temporal"])
def test_outlast_up_does_not_replace_a_link_to_a_disk_that_is_not_mounted(name: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / name).symlink_to(tmp_path / "unmounted")
    # Terminals wrap long paths.
    assert f"{name} is a link to {tmp_path / 'unmounted'}" in refused("up", data_dir, COLUMNS="500")
    assert (data_dir / name).is_symlink()
    assert not (tmp_path / "unmounted").exists()
    with running_stack(data_dir, "--begin-anew") as stack:
        assert httpx.get(f"{url_of(stack)}/v1/tasks", timeout=180).raise_for_status().json()["tasks"] == []
    (aside,) = data_dir.glob("set-aside-*")
    assert (aside / name).is_symlink()


def test_beginning_anew_keeps_everything_old(copy: Path) -> None:
    (copy / "seal.keys").unlink()
    before = content_of(copy)
    with running_stack(copy, "--begin-anew") as stack:
        assert stack.said("begin_anew", "stack") == 1
        (aside,) = copy.glob("set-aside-*")
        kept = {f"{aside.name}/{name}": content for name, content in before.items()}
        assert content_of(copy).items() >= kept.items()
        tasks = httpx.get(f"{url_of(stack)}/v1/tasks", timeout=180).raise_for_status().json()["tasks"]
        assert tasks == []
    assert refused_parts(copy) == []


def test_beginning_anew_changes_nothing_that_is_whole(copy: Path) -> None:
    before = content_of(copy)
    note = take_over(StackConfig(data_dir=copy, environment={}, begin_anew=True), look_outside({}))
    assert note is not None
    assert "changes nothing" in note
    assert content_of(copy) == before


def test_a_client_that_starts_the_stack_is_told_too(copy: Path) -> None:
    (copy / "temporal" / "temporal.db").unlink()
    assert "temporal/temporal.db is missing" in refused("mcp", copy)
    assert not (copy / "temporal" / "temporal.db").exists()


async def test_data_of_a_version_without_fingerprints_gets_them_and_a_part_that_vanishes_later_is_noticed(
    copy: Path, used: Used
) -> None:
    (copy / "version.json").write_text(json.dumps({"outlast_version": "0.0.9"}))
    shutil.rmtree(copy / "outputs" / "owner")
    with closing(sqlite3.connect(copy / "sandbox" / "sandbox.sqlite")) as database:
        database.execute("DROP TABLE identity")
    outlast("up", "--detach", "--data-dir", str(copy))
    state = find_running(copy)
    assert state is not None
    try:
        async with api_client(str(state.addresses.api_url), timeout_seconds=60) as http:
            assert (await http.get(f"/v1/tasks/{used.task}")).json()["status"] == "completed"
        recorded = json.loads((copy / "version.json").read_text())["belongings"]
        assert recorded["keys"]
        assert recorded["namespaces"].keys() == {"default"}
        assert recorded["sandbox"]
        assert recorded["store"] == "own"
        shutil.rmtree(copy / "temporal")
        os.kill(state.children["temporal"], signal.SIGKILL)
        await eventually(lambda: find_running(copy) is None)
    finally:
        await stop_running(copy)
    log = copy / "logs" / "stack.log"  # its last line is written after the state of the stack was removed
    await eventually(lambda: "temporal.db is missing: temporal is not restarted" in log.read_text())
    assert "temporal/temporal.db is missing" in refused("up", copy)


@pytest.mark.parametrize("name", ["seal.keys", "temporal/temporal.db", "sandbox/sandbox.sqlite", "sandbox-token"])
def test_what_is_missing_of_older_data_is_noticed_as_well(name: str, copy: Path) -> None:
    for version in (json.dumps({"outlast_version": "0.0.9"}), None):
        (copy / "version.json").unlink(missing_ok=True)
        if version:
            (copy / "version.json").write_text(version)
        (copy / name).unlink(missing_ok=True)
        assert f"{name} is missing" in "\n".join(refused_parts(copy))


def refused_parts(data_dir: Path) -> list[str]:
    return broken_parts(data_dir, {}, look_outside({}))


def test_a_backup_without_its_keys_waits_for_the_right_ones(copy: Path, foreign: Path, tmp_path: Path) -> None:
    archive, restored = tmp_path / "archive", tmp_path / "restored"
    keys = (copy / "seal.keys").read_bytes()
    outlast("backup", "--no-secrets", str(archive), "--data-dir", str(copy))
    outlast("restore", str(archive), "--data-dir", str(restored))
    token = (copy / "sandbox-token").read_bytes()
    (restored / "sandbox-token").write_bytes(token)
    assert "seal.keys is missing" in refused("up", restored)
    shutil.copyfile(foreign / "seal.keys", restored / "seal.keys")
    assert "seal.keys does not belong to the data" in refused("up", restored)
    (restored / "seal.keys").write_bytes(keys)
    assert refused_parts(restored) == []
    (restored / "restored.json").unlink()
    assert "restored.json is missing" in "\n".join(refused_parts(restored))


def test_no_backup_is_made_of_what_is_not_whole(copy: Path, tmp_path: Path) -> None:
    (copy / "seal.keys").unlink()
    command = outlast_command("backup", str(tmp_path / "archive"), "--data-dir", str(copy))
    ended = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "seal.keys is missing" in " ".join(ended.stderr.split())
    assert not (tmp_path / "archive").exists()


def outlast(*arguments: str) -> None:
    ended = subprocess.run(
        outlast_command(*arguments), env=stack_environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_stack_that_had_a_policy_is_not_opened_to_everybody(copy: Path, tmp_path: Path) -> None:
    """`OUTLAST_POLICY_FILE` was set; a restored directory, or a new service file, easily forgets it."""
    version = json.loads((copy / "version.json").read_text())
    version["belongings"]["policy"] = True
    (copy / "version.json").write_text(json.dumps(version))
    assert "OUTLAST_POLICY_FILE is not set, and this stack had a policy" in refused("up", copy)
    assert broken_parts(copy, {"OUTLAST_POLICY_FILE": ""}, look_outside({})) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "holds outputs of another database"),
        ({"OUTLAST_SEAL_KEYS": "other:" + "A" * 43 + "="}, "The sealing keys are not those of the data"),
    ],
)
def test_a_worker_does_not_begin_on_the_outputs_of_another_database_or_ring(
    settings: dict[str, str], expected: str, copy: Path, tmp_path: Path
) -> None:
    """As in a cluster, where no stack looks first: the sweep would delete the outputs, and secrets would fail."""
    ring = ",".join((copy / "seal.keys").read_text().split())
    if settings:
        owner = copy / "outputs" / "owner" / "default.json"
        owner.write_text(json.dumps({**json.loads(owner.read_text()), "namespace_id": ""}))
    nowhere = Sandbox("http://127.0.0.1:9", "no token", tmp_path)
    own = {"OUTLAST_DATA_DIR": str(copy), "OUTLAST_SEAL_KEYS": ring, "OUTLAST_SWEEP_INTERVAL_SECONDS": "1"}
    with running_temporal(tmp_path) as temporal:
        environment = settings_environment(temporal.address, nowhere, **{**own, **settings})
        before = content_of(copy)
        log = tmp_path / "worker.log"
        with started_module("outlast.worker", ready_url="", log=log, environment=environment) as worker:
            assert worker.process.wait(120) == 1
        assert expected in log.read_text()
        assert {name: content for name, content in content_of(copy).items() if name in before} == before


def url_of(stack: RunningStack) -> str:
    assert stack.addresses.api_url
    return stack.addresses.api_url
