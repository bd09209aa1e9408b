"""A command talks to its own stack, or to the server that it was told; never to whatever listens there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.deploy.local.stack import DataDirectoryLock
from outlast.deploy.local.state import StackAddresses, StackState, write_state
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, FakeApi

TOKEN = "not-for-strangers-0123"


@pytest.fixture
def data_dir(tmp_path: Path, fake_api: FakeApi, monkeypatch: pytest.MonkeyPatch, outlast: Outlast) -> Iterator[Path]:
    """Of a stack that runs, and says that its API is where the fake one is."""
    monkeypatch.delenv("OUTLAST_URL")
    monkeypatch.setenv("OUTLAST_TOKEN", TOKEN)
    folder = tmp_path / "own"
    folder.mkdir()
    addresses = StackAddresses(api_url=fake_api.url)
    write_state(folder, StackState(instance_id="own", pid=1, started_at="", addresses=addresses, parts={}, ports={}))
    lock = DataDirectoryLock(folder).acquire()
    yield folder
    lock.release()


def test_its_own_stack_proves_itself_and_is_used(data_dir: Path, fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/healthz", Answer("ok", headers={"Outlast-Instance": "own"}))
    fake_api.on("GET", "/v1/tasks", {"tasks": []})
    assert outlast("tasks", "ls", "--data-dir", str(data_dir)).code == 0


@pytest.mark.parametrize("headers", [{}, {"Outlast-Instance": "another"}])
def test_a_stranger_on_its_port_is_refused_and_sees_no_token(
    data_dir: Path, fake_api: FakeApi, outlast: Outlast, headers: dict[str, str]
) -> None:
    fake_api.on("GET", "/healthz", Answer("ok", headers=headers))
    fake_api.on("GET", "/v1/tasks", {"tasks": []})
    ended = outlast("tasks", "ls", "--data-dir", str(data_dir))
    assert ended.code == 3
    assert f"What answers at {fake_api.url} is not the stack" in ended.said
    assert f"--url {fake_api.url}" in ended.said
    assert [request.path for request in fake_api.seen] == ["/healthz"]
    assert TOKEN not in str(fake_api.seen)


def test_a_server_that_was_named_is_used_whatever_it_is(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", {"tasks": []})
    assert outlast("tasks", "ls", "--url", fake_api.url).code == 0
    assert [request.path for request in fake_api.seen] == ["/v1/tasks"]
