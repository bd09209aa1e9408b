"""Which server a client talks to, and where its token shows."""

from pathlib import Path

import pytest

from outlast.cli.options import Options
from outlast.client import BadSettings, Client, NoServer, find_connection
from outlast.deploy.local.stack import DataDirectoryLock
from outlast.deploy.local.state import StackAddresses, StackState, write_state

TOKEN = "sk-very-secret-0123456789"


NO_ENVIRONMENT: dict[str, str] = {}


def stack_file(data_dir: Path, api_url: str) -> None:
    data_dir.mkdir(exist_ok=True)
    addresses = StackAddresses(api_url=api_url)
    state = StackState(instance_id="this-one", pid=1, started_at="", addresses=addresses, parts={}, ports={})
    write_state(data_dir, state)


def test_the_named_server_wins(tmp_path: Path) -> None:
    connection = find_connection("https://tools.example/", data_dir=tmp_path, environment=NO_ENVIRONMENT)
    assert (connection.url, connection.instance_id) == ("https://tools.example", None)


def test_the_environment_names_server_and_token() -> None:
    connection = find_connection(environment={"OUTLAST_URL": "https://tools.example", "OUTLAST_TOKEN": TOKEN})
    assert (connection.url, connection.token) == ("https://tools.example", TOKEN)


@pytest.mark.parametrize("named_by", ["argument", "text", "environment"])
def test_a_running_stack_is_found_by_its_data_directory_and_has_to_prove_itself(
    tmp_path: Path, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    monkeypatch.delenv("OUTLAST_TOKEN", raising=False)
    stack_file(tmp_path, "http://127.0.0.1:23456")
    lock = DataDirectoryLock(tmp_path).acquire()
    try:
        if named_by == "argument":
            connection = find_connection(data_dir=tmp_path, environment=NO_ENVIRONMENT)
        elif named_by == "text":
            connection = Client(data_dir=str(tmp_path)).connection
        else:
            connection = find_connection(environment={"OUTLAST_DATA_DIR": str(tmp_path)})
    finally:
        lock.release()
    assert (connection.url, connection.instance_id) == ("http://127.0.0.1:23456", "this-one")


def test_a_file_that_a_dead_stack_left_names_no_server(tmp_path: Path) -> None:
    stack_file(tmp_path, "http://127.0.0.1:23456")
    (tmp_path / "stack.lock").touch()
    with pytest.raises(NoServer, match="No stack runs on the data directory") as caught:
        find_connection(data_dir=tmp_path, environment=NO_ENVIRONMENT)
    assert "outlast up" in (caught.value.hint or "")


def test_a_folder_that_cannot_be_one_has_no_stack(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoServer):
        find_connection(data_dir=tmp_path / "file", environment=NO_ENVIRONMENT)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8400", "ftp://a.example", "http://", "http://a.example:99999", "http://a:b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="not the address"):
        find_connection(url, environment=NO_ENVIRONMENT)


@pytest.mark.parametrize("token", [f"{TOKEN}\nX-Evil: 1", f"{TOKEN}ü", f"a {TOKEN}"])
def test_a_token_that_cannot_be_sent_is_refused_without_being_repeated(token: str) -> None:
    with pytest.raises(BadSettings) as caught:
        find_connection("http://a.example", token, environment=NO_ENVIRONMENT)
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_the_token_shows_in_no_representation() -> None:
    options = Options(token=TOKEN)
    assert TOKEN not in repr(options)
    assert TOKEN not in repr(find_connection("http://a.example", TOKEN))


def test_a_hint_names_the_same_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    assert Options().command("tasks ls") == "outlast tasks ls"
    assert Options(url="http://a.example").command("tasks ls") == "outlast tasks ls --url http://a.example"
    assert Options(data_dir=Path("a b")).command("up") == "outlast up --data-dir 'a b'"
    monkeypatch.setenv("OUTLAST_URL", "http://a.example")
    assert Options(url="http://a.example").command("tasks ls") == "outlast tasks ls"
