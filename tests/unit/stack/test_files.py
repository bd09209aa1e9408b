import base64
from pathlib import Path

from outlast.deploy.local.processes import numbered, rotate, tail
from outlast.deploy.local.state import (
    SANDBOX_TOKEN_FILE,
    StackAddresses,
    StackState,
    ensure_sandbox_token,
    ensure_seal_keys,
    find_running,
    http_url,
    read_state,
    write_state,
)


def test_seal_keys_are_made_once_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = ensure_seal_keys(tmp_path)
    first = path.read_text()
    assert ensure_seal_keys(tmp_path).read_text() == first
    assert path.stat().st_mode & 0o777 == 0o600
    key_id, _, key = first.strip().partition(":")
    assert key_id
    assert len(base64.b64decode(key, validate=True)) == 32


def test_the_sandbox_token_stays_the_same(tmp_path: Path) -> None:
    assert ensure_sandbox_token(tmp_path) == ensure_sandbox_token(tmp_path)
    assert (tmp_path / SANDBOX_TOKEN_FILE).stat().st_mode & 0o777 == 0o600


def test_logs_are_rotated_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    for start in range(5):
        log.write_text(f"start {start}")
        rotate(log, kept=2)
    assert not log.exists()
    assert [numbered(log, number).read_text() for number in (1, 2)] == ["start 4", "start 3"]
    assert not numbered(log, 3).exists()


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert tail(log, lines=2) == "line 98\nline 99"
    assert tail(tmp_path / "none.log") == ""


def test_a_state_file_that_a_dead_stack_left_behind_is_not_believed(tmp_path: Path) -> None:
    state = StackState(pid=1, started_at="", addresses=StackAddresses(), parts={}, ports={"api": 8400})
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert find_running(tmp_path) is None


def test_an_illegible_state_file_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    assert read_state(tmp_path) is None


def test_a_server_on_a_wildcard_is_called_on_loopback() -> None:
    assert http_url("0.0.0.0", 80) == "http://127.0.0.1:80"
    assert http_url("::", 80) == "http://[::1]:80"
