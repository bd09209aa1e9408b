"""A cluster's backup, as the page tells it: copies of its database and its store, restored while runs went on.

Temporal, worker and API are processes of their own, and the store is a real S3. The database is SQLite's: its online
backup stands for a dump of PostgreSQL, one consistent moment that stops nothing.
"""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.support.http.api_client import bearer
from tests.support.paths import ROOT
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.s3 import S3Server, running_s3
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.stack_config import clean_environment

PAGE = (ROOT / "docs" / "backup.md").read_text()
PAUSE = 'temporal schedule toggle --schedule-id outlast-retention --pause --reason "restored"'
RESUME = 'temporal schedule toggle --schedule-id outlast-retention --unpause --reason "restored"'
PREFIX = "outlast/outputs"


@dataclass
class Saved:
    """What was kept of the first cluster, and what has to be true of it in the second."""

    moment: str
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    locators: dict[str, str] = field(default_factory=dict[str, str])


@pytest.mark.thorough
async def test_a_cluster_goes_on_elsewhere_from_its_copies(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("platform", "store", "copy", "first", "second")}
    for folder in folders.values():
        folder.mkdir()
    first, second = folders["first"], folders["second"]
    with (
        running_sandbox(folders["platform"]) as platform,
        running_s3(folders["store"]) as store,
        running_s3(folders["copy"]) as copy,
    ):
        key = new_key(first / "policy.toml")
        with ChaosStack(first, platform, **settings(first, store)) as stack:
            await stack.bring_up()
            async with client(stack, key) as chaos:
                saved = await work_and_save(chaos, store, copy, second / "temporal.db")
        (second / "policy.toml").write_bytes((first / "policy.toml").read_bytes())

        restored = {**settings(second, copy), "OUTLAST_RESTORED_INTERVAL": f"{saved.moment}/{now()}"}
        with ChaosStack(second, platform, **restored) as stack:
            stack.temporal.start()
            await stack.temporal.ready()
            typed(stack, PAUSE)
            await stack.bring_up()
            async with client(stack, key) as chaos:
                await expect_everything(chaos, saved, platform)
            described = typed(stack, "temporal schedule describe --schedule-id outlast-retention -o json")
            assert json.loads(described)["schedule"]["state"]["paused"] is True
            typed(stack, RESUME)


async def work_and_save(chaos: Chaos, store: S3Server, copy: S3Server, database: Path) -> Saved:
    """Work that is at different moments of its life when it is saved. The cluster goes on with it, and is killed."""
    tasks = {name: await chaos.start(seconds=0, rows=500) for name in ("stored", "removed")}
    locators = {name: await stored_output(chaos, task) for name, task in tasks.items()}
    tasks["run going on"] = await chaos.start(seconds=20)
    await chaos.until(lambda: chaos.books.starts == len(tasks))
    copy_new(store, copy)

    tasks["stored late"] = await chaos.start(seconds=0, rows=500)
    locators["stored late"] = await stored_output(chaos, tasks["stored late"])
    chaos.stack.worker.suspend()
    tasks["not begun"] = await chaos.start(seconds=5)
    saved = Saved(now(), tasks, locators)
    source = str(chaos.stack.temporal_server.database)
    with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(database)) as here:
        there.backup(here)

    chaos.stack.worker.resume()
    assert (await chaos.http.delete(f"/v1/outputs/{locators['removed']}")).is_success
    await chaos.until(lambda: chaos.books.starts == len(tasks))
    copy_new(store, copy)
    return saved


async def expect_everything(chaos: Chaos, saved: Saved, platform: Sandbox) -> None:
    """Every task ends well, no run is paid twice, and every output that the database knows is there, whole."""
    for task in saved.tasks.values():
        ended = await chaos.ended(task)
        assert (ended["status"], ended["run"]["status"]) == ("completed", "SUCCEEDED"), ended
    assert platform.counters["startsAccepted"] == len(saved.tasks), "a run was paid again"
    assert all(len(runs) == 1 for runs in platform.counters["operations"].values())
    for locator in saved.locators.values():
        answer = await chaos.http.get(f"/v1/outputs/{locator}")
        assert answer.is_success, answer.text
        assert len(answer.text.splitlines()) == 500


async def stored_output(chaos: Chaos, task: str) -> str:
    await chaos.ended(task)
    result = await chaos.result(task)
    assert result is not None
    return result["structured"]["locator"]


def settings(folder: Path, store: S3Server) -> dict[str, str]:
    """Of worker and API."""
    url = store.url(PREFIX)
    return {**store.environment, "OUTLAST_STORE_URL": url, "OUTLAST_POLICY_FILE": str(folder / "policy.toml")}


@asynccontextmanager
async def client(stack: ChaosStack, key: str) -> AsyncIterator[Chaos]:
    """The caller with this key."""
    chaos = Chaos(stack)
    async with chaos.http:
        chaos.http.headers.update(bearer(key))
        yield chaos


def new_key(policy: Path) -> str:
    """The key of a caller of a new policy file."""
    command = outlast_command("keys", "create", "--caller", "nightly", "--json")
    environment = clean_environment(OUTLAST_POLICY_FILE=str(policy))
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)["key"]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def typed(stack: ChaosStack, command: str) -> str:
    """What a command of the page prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**stack.environment(), "PATH": path}
    ended = subprocess.run(shlex.split(command), env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def copy_new(store: S3Server, copy: S3Server) -> None:
    """What `rclone copy` does: bring over what is missing, remove nothing."""
    source, target = store.open(), copy.open()
    for path in paths(source) - paths(target):
        obstore.put(target, path, obstore.get(source, path).bytes())


def paths(store: S3Store) -> set[str]:
    return {entry["path"] for page in obstore.list(store, PREFIX) for entry in page}


def test_the_page_has_the_commands() -> None:
    assert PAUSE in PAGE
    assert RESUME in PAGE
