"""Where the server is, and what is done with the token."""

from pathlib import Path

import pytest

from outlast.api.cli.errors import BadInput
from outlast.api.cli.http.server import DEFAULT_URL, find_server
from outlast.api.cli.options import Options
from outlast.deploy.local.addresses import StackAddresses
from outlast.deploy.local.lock import DataDirectoryLock
from outlast.deploy.local.state import StackState, write_state

TOKEN = "sk-very-secret-0123456789"


def stack_file(data_dir: Path, api_url: str) -> None:
    data_dir.mkdir(exist_ok=True)
    addresses = StackAddresses(api_url=api_url)
    write_state(data_dir, StackState(pid=1, started_at="", addresses=addresses, parts={}, ports={}))


def test_the_named_server_wins(tmp_path: Path) -> None:
    assert find_server(Options(url="https://tools.example/", data_dir=tmp_path)).url == "https://tools.example"


def test_a_running_stack_is_found_by_its_data_directory(tmp_path: Path) -> None:
    stack_file(tmp_path, "http://127.0.0.1:23456")
    lock = DataDirectoryLock(tmp_path).acquire()
    try:
        assert find_server(Options(data_dir=tmp_path)).url == "http://127.0.0.1:23456"
    finally:
        lock.release()


def test_a_file_that_a_dead_stack_left_is_not_believed(tmp_path: Path) -> None:
    stack_file(tmp_path, "http://127.0.0.1:23456")
    (tmp_path / "stack.lock").touch()
    server = find_server(Options(data_dir=tmp_path))
    assert server.url == DEFAULT_URL
    assert "outlast up" in server.hint


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8400", "ftp://a.example", "http://", "http://a.example:99999", "http://a:b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="not the address"):
        find_server(Options(url=url))


@pytest.mark.parametrize("token", [f"{TOKEN}\nX-Evil: 1", f"{TOKEN}ü", f"a {TOKEN}"])
def test_a_token_that_cannot_be_sent_is_refused_without_being_repeated(token: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_server(Options(token=token))
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_the_token_shows_in_no_representation() -> None:
    options = Options(token=TOKEN)
    assert TOKEN not in repr(options)
    assert TOKEN not in repr(find_server(options))


def test_a_hint_names_the_same_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    assert Options().command("tasks ls") == "outlast tasks ls"
    assert Options(url="http://a.example").command("tasks ls") == "outlast tasks ls --url http://a.example"
    assert Options(data_dir=Path("a b")).command("up") == "outlast up --data-dir 'a b'"
    monkeypatch.setenv("OUTLAST_URL", "http://a.example")
    assert Options(url="http://a.example").command("tasks ls") == "outlast tasks ls"
