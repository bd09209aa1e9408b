"""The embedded stack on the data of another version: one that is older goes on, one that is newer is refused."""

import json
import subprocess
from pathlib import Path

import pytest

from outlast.deploy.local.data_directory import own_version
from tests.support.calls.questions import asks, result, said, taken, waiting
from tests.support.http.api_client import api_client
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import RunningStack, running_stack, stack_environment

TOOLS = {"OUTLAST_TOOLS_FROM": "docs.examples.hello_tools"}


def last_version(data_dir: Path) -> str:
    return json.loads((data_dir / "version.json").read_text())["outlast_version"]


def write_last_version(data_dir: Path, version: str) -> None:
    (data_dir / "version.json").write_text(json.dumps({"outlast_version": version}))


def url_of(stack: RunningStack) -> str:
    assert stack.addresses.api_url
    return stack.addresses.api_url


@pytest.mark.thorough
async def test_a_newer_version_goes_on_with_the_open_tasks_of_an_older_one(tmp_path: Path) -> None:
    with running_stack(tmp_path, **TOOLS) as stack:
        async with api_client(url_of(stack), timeout_seconds=30) as http:
            task = await waiting(http, {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}})
    assert last_version(tmp_path) == own_version()
    write_last_version(tmp_path, "0.0.9")
    with running_stack(tmp_path, **TOOLS) as stack:
        async with api_client(url_of(stack), timeout_seconds=30) as http:
            assert (await asks(http, task["id"]))["input_requests"] == task["input_requests"]
            await taken(http, task, {"colour": "red"})
            assert "red" in said(await result(http, task["id"]))
    assert last_version(tmp_path) == own_version()


def test_an_older_version_refuses_newer_data_and_leaves_it_alone(tmp_path: Path) -> None:
    newer = "99.0.0rc1"
    write_last_version(tmp_path, newer)
    ended = subprocess.run(
        outlast_command("up", "--data-dir", str(tmp_path)),
        env=stack_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1
    message = " ".join(ended.stderr.split())  # as wide as its terminal
    assert f"Outlast {newer} has used" in message
    assert f"this is {own_version()}, which is older" in message
    assert f"Install {newer} or newer" in message
    assert last_version(tmp_path) == newer
    assert not (tmp_path / "temporal").exists()
