"""`outlast up`, `demo` and `doctor` where no stack can or does run."""

import socket
from pathlib import Path

import pytest

from outlast.deploy.local.stack import DataDirectoryLock
from outlast.deploy.local.state import ProcessState, ProcessStatus, StackAddresses, StackState, write_state
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, FakeApi, problem
from tests.support.ports import free_port


@pytest.mark.parametrize("command", ["up", "demo"])
def test_a_port_that_was_asked_for_and_is_taken_is_an_error(outlast: Outlast, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = outlast(command, "--api-port", str(port), "--temporal-port", "0", "--temporal-ui-port", "0")
    assert ended.code == 2
    assert f"Port {port} on 127.0.0.1, selected as the API port, is already in use" in ended.said
    assert "--api-port (OUTLAST_API_PORT)" in ended.said


def test_a_data_directory_that_is_in_use_is_an_error(outlast: Outlast, tmp_path: Path) -> None:
    lock = DataDirectoryLock(tmp_path / "data").acquire()
    try:
        ended = outlast("up", "--data-dir", str(tmp_path / "data"), "--json")
    finally:
        lock.release()
    assert ended.code == 2
    assert "is in use by another stack" in ended.document["error"]["message"]


def test_a_setting_that_makes_no_sense_is_named(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_SANDBOX_PORT", "many")
    ended = outlast("up")
    assert ended.code == 2
    assert "OUTLAST_SANDBOX_PORT" in ended.said


def test_doctor_where_nothing_runs_says_to_start_it(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_URL")
    ended = outlast("doctor")
    assert ended.code == 1
    assert "✗ API No stack runs on the data directory" in " ".join(ended.out.split())
    assert "outlast up" in ended.out
    checks = {check["name"]: check["health"] for check in outlast("doctor", "--json").document["checks"]}
    assert checks["API"] == "fail"
    assert checks["Temporal"] == checks["Worker"] == checks["Platform"] == "skip"
    assert checks["Python"] == checks["Data directory"] == checks["Sealing keys"] == "ok"


def test_doctor_tells_a_missing_worker_and_a_refused_token_apart(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/healthz", Answer("ok"))
    fake_api.on("GET", "/readyz", Answer({"ready": True, "checks": {"temporal": "ok", "worker": "failing"}}))
    fake_api.on("GET", "/v1/tools", problem(401, "No", "Send your API key."))
    checks = {check["name"]: check for check in outlast("doctor", "--json").document["checks"]}
    assert {name: checks[name]["health"] for name in ("API", "Temporal", "Worker", "Credential", "Tools")} == {
        "API": "ok",
        "Temporal": "ok",
        "Worker": "fail",
        "Credential": "fail",
        "Tools": "skip",
    }
    assert "OUTLAST_TOKEN" in checks["Credential"]["advice"]


def test_doctor_shows_a_part_that_keeps_ending_and_why(outlast: Outlast, tmp_path: Path) -> None:
    worker = ProcessStatus(state=ProcessState.RESTARTING, restarts=7, last_end="worker ended with exit code 1.")
    state = StackState(pid=1, started_at="", addresses=StackAddresses(), parts={"worker": worker}, ports={})
    lock = DataDirectoryLock(tmp_path).acquire()
    write_state(tmp_path, state)
    try:
        checks = outlast("doctor", "--data-dir", str(tmp_path), "--json").document["checks"]
    finally:
        lock.release()
    stack = next(check for check in checks if check["name"] == "Stack")
    assert (stack["health"], stack["finding"]) == ("fail", "worker is restarting")
    assert "worker ended with exit code 1." in stack["advice"]
    assert str(tmp_path / "logs" / "worker.log") in stack["advice"]


def test_doctor_checks_the_platform_and_its_token(
    fake_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APIFY_TOKEN", "apify_api_planted")
    monkeypatch.setenv("APIFY_API_BASE_URL", fake_api.url)
    fake_api.on("GET", "/v2/users/me", Answer({"data": {"username": "ada"}}), Answer({}, 401))
    good, bad = (
        next(check for check in outlast("doctor", "--json").document["checks"] if check["name"] == "Platform")
        for _ in range(2)
    )
    assert (good["health"], good["finding"]) == ("ok", f"Apify, {fake_api.url}, as ada")
    assert (bad["health"], "APIFY_TOKEN" in bad["advice"]) == ("fail", True)
    assert fake_api.requests("GET", "/v2/users/me")[0].headers["authorization"] == "Bearer apify_api_planted"


def test_doctor_sees_a_data_directory_that_cannot_be_one(outlast: Outlast, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checks = outlast("doctor", "--data-dir", str(tmp_path / "file"), "--json").document["checks"]
    assert next(check["health"] for check in checks if check["name"] == "Data directory") == "fail"


@pytest.mark.parametrize(
    ("content", "mode", "health"),
    [("k1:c2hvcnQ=", 0o600, "fail"), ("nonsense", 0o600, "fail"), ("k1:" + "A" * 43 + "=", 0o644, "warn")],
)
def test_doctor_looks_at_the_sealing_keys(
    outlast: Outlast, tmp_path: Path, content: str, mode: int, health: str
) -> None:
    keys = tmp_path / "seal.keys"
    keys.write_text(content)
    keys.chmod(mode)
    checks = outlast("doctor", "--data-dir", str(tmp_path), "--json").document["checks"]
    check = next(check for check in checks if check["name"] == "Sealing keys")
    assert check["health"] == health
    assert "c2hvcnQ=" not in str(check)


def test_doctor_names_taken_ports(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("OUTLAST_API_PORT", str(port))
        checks = outlast("doctor", "--json").document["checks"]
    assert any(
        check["health"] == "fail" and f"OUTLAST_API_PORT={port} is taken" in check["finding"] for check in checks
    )


def test_a_misspelt_setting_stops_up_before_anything_starts(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTLAST_API_KEY", "ada:secret-secret-secret")
    ended = outlast("up", "--data-dir", str(tmp_path / "data"))
    assert ended.code == 2
    assert "OUTLAST_API_KEY is not a setting of Outlast. Did you mean OUTLAST_API_KEYS?" in ended.said
    assert "secret-secret" not in ended.said
    assert not (tmp_path / "data").exists()


def test_doctor_has_a_row_for_a_misspelt_setting(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_API_KEY", "ada:secret-secret-secret")
    ended = outlast("doctor", "--json")
    rows = [check for check in ended.document["checks"] if check["name"] == "Settings"]
    assert [(row["health"], row["finding"]) for row in rows] == [
        ("fail", "OUTLAST_API_KEY is not a setting of Outlast. Did you mean OUTLAST_API_KEYS?")
    ]
    assert "secret-secret" not in ended.said + str(rows)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OUTLAST_STORE_URL", "s4://bucket", "OUTLAST_STORE_URL cannot be used"),
        ("OUTLAST_RUN_SLOTS", "many", "OUTLAST_RUN_SLOTS: Input should be a valid integer"),
        ("OUTLAST_API_KEYS", "short", "OUTLAST_API_KEYS: Value error, each entry of OUTLAST_API_KEYS"),
    ],
)
def test_a_wrong_setting_stops_up_and_is_a_row_of_doctor(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    ended = outlast("up")
    assert ended.code == 2
    assert said in ended.said
    checks = outlast("doctor", "--json").document["checks"]
    assert any(check["health"] == "fail" and said in check["finding"] for check in checks)


def test_a_store_that_does_not_answer_stops_up(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    settings = {"STORE_URL": "s3://bucket/outlast"}
    credentials = {"ENDPOINT_URL": address, "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1"}
    for name, value in settings.items():
        monkeypatch.setenv(f"OUTLAST_{name}", value)
    for name, value in credentials.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    ended = outlast("up")
    assert ended.code == 2
    assert "s3://bucket/outlast (OUTLAST_STORE_URL)" in ended.said


def test_a_token_that_the_platform_does_not_accept_stops_up(
    fake_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APIFY_TOKEN", "apify_api_planted")
    monkeypatch.setenv("APIFY_API_BASE_URL", fake_api.url)
    fake_api.on("GET", "/v2/users/me", Answer({}, 401))
    ended = outlast("up")
    assert ended.code == 2
    assert f"{fake_api.url} does not accept APIFY_TOKEN" in ended.said
    assert "OUTLAST_TOKEN" not in ended.said


def test_a_broken_actor_folder_stops_up_and_is_a_row_of_doctor(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = tmp_path / "mine" / ".actor" / "actor.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    monkeypatch.setenv("OUTLAST_ACTORS", str(tmp_path / "mine"))
    ended = outlast("up")
    assert ended.code == 2
    assert str(manifest) in ended.said.replace(" ", "")
    checks = {check["name"]: check for check in outlast("doctor", "--json").document["checks"]}
    assert checks["Actor folders"]["health"] == "fail"


@pytest.mark.parametrize("command", [("up",), ("dev", "tools.py")])
def test_a_wrong_file_of_mcp_servers_is_refused_with_its_lines(
    outlast: Outlast, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"git": {"cmd": "uvx"},\n"wiki": {"url": "wiki"}}}')
    ended = outlast(*command, "--mcp-servers", str(file))
    assert ended.code == 2
    assert "line 1, mcpServers.git.cmd: is unknown; did you mean 'command'?" in ended.said
    assert "line 2, mcpServers.wiki.url: is not an address" in ended.said


def test_the_file_of_mcp_servers_is_named_by_a_variable_too(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_MCP_SERVERS_FILE", "none.json")
    ended = outlast("up")
    assert ended.code == 2
    assert "cannot be read: No such file or directory" in ended.said
    assert "OUTLAST_MCP_SERVERS_FILE" in ended.said
