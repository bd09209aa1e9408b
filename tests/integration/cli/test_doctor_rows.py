"""Each row of `outlast doctor` says what is wrong: on this machine, and with the parts that answer."""

import socket
from pathlib import Path

import pytest

from outlast.cli.checks import components, machine
from outlast.contracts.checks import Check
from outlast.deploy.local.errors import MissingServerError
from outlast.deploy.local.state import StackAddresses, StackState
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, FakeApi, problem

NOWHERE = "http://127.0.0.1:1"


def rows(outlast: Outlast) -> dict[str, tuple[str, str]]:
    """Health and finding of each row."""
    checks = outlast("doctor", "--json").document["checks"]
    return {check["name"]: (check["health"], check["finding"]) for check in checks}


def told(check: Check) -> tuple[str, str]:
    assert check.advice
    return str(check.health), check.finding


def test_a_python_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_OLDEST_PYTHON", (99, 0))
    assert told(machine.check_python())[0] == "fail"


@pytest.mark.parametrize(("free", "health"), [(100_000_000, "fail"), (1_000_000_000, "warn"), (9_000_000_000, "ok")])
def test_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, health: str) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda _: free)
    assert machine.check_disk(tmp_path).health == health


def test_a_data_directory_that_others_can_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    health, finding = told(machine.check_data_dir(tmp_path))
    assert (health, "can be read by others" in finding) == ("warn", True)
    tmp_path.chmod(0o700)
    assert machine.check_data_dir(tmp_path).health == "ok"


def test_sealing_keys_that_are_missing_or_unreadable(tmp_path: Path) -> None:
    named = {"OUTLAST_SEAL_KEYS_FILE": str(tmp_path / "named.keys")}
    health, finding = told(machine.check_seal_keys(tmp_path, named))
    assert (health, "does not exist" in finding) == ("fail", True)
    (tmp_path / "named.keys").write_bytes(b"\xff\xff")
    health, finding = told(machine.check_seal_keys(tmp_path, named))
    assert (health, "cannot be read" in finding) == ("fail", True)
    (tmp_path / "temporal").mkdir()
    (tmp_path / "temporal" / "temporal.db").touch()
    health, finding = told(machine.check_seal_keys(tmp_path, {}))
    assert (health, "is missing" in finding) == ("fail", True)


def test_encryption_with_a_key_id_that_is_too_long() -> None:
    ring = {"OUTLAST_SEAL_KEYS": f"{'k' * 41}:{'A' * 43}=", "OUTLAST_ENCRYPTION": "on"}
    health, finding = told(machine.check_encryption(ring))
    assert (health, "at most 40 bytes" in finding) == ("fail", True)
    assert machine.check_encryption({}).health == "skip"
    assert machine.check_encryption({"OUTLAST_ENCRYPTION": "on"}).health == "ok"


def test_a_temporal_server_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise MissingServerError("pip install it")

    monkeypatch.setattr(machine, "find_executable", missing)
    assert told(machine.check_temporal_server({})) == ("fail", "not installed")


def test_a_default_port_that_is_taken_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(machine, "_PORTS", {"OUTLAST_API_PORT": port})
        assert [told(check) for check in machine.check_ports({})] == [("warn", f"{port} taken")]


async def test_parts_of_a_stack_that_do_not_answer(tmp_path: Path) -> None:
    addresses = StackAddresses(metrics_url=NOWHERE, temporal_ui_url=NOWHERE, sandbox_url=NOWHERE)
    state = StackState(pid=1, started_at="", addresses=addresses, parts={}, ports={})
    around = components.Surroundings(tmp_path, state, {})
    assert told(await components.check_metrics(around)) == ("fail", f"{NOWHERE} serves no metrics")
    assert told(await components.check_temporal_ui(around)) == ("warn", f"{NOWHERE} does not answer")
    assert told(await components.check_platform(around)) == ("fail", f"{NOWHERE}: no token")
    elsewhere = {"APIFY_TOKEN": "apify_api_planted", "APIFY_API_BASE_URL": NOWHERE}
    assert told(await components.check_platform(components.Surroundings(tmp_path, None, elsewhere))) == (
        "fail",
        f"{NOWHERE} does not answer",
    )


def test_an_api_without_temporal_without_actors_and_with_a_platform_that_is_down(
    fake_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APIFY_TOKEN", "apify_api_planted")
    monkeypatch.setenv("APIFY_API_BASE_URL", fake_api.url)
    fake_api.on("GET", "/v2/users/me", Answer({}, 503))
    fake_api.on("GET", "/healthz", Answer("ok"))
    fake_api.on("GET", "/readyz", Answer({"ready": False, "checks": {"temporal": "failing", "worker": "unknown"}}))
    tool = {"name": "call-actor", "category": "runs", "description": "Get a run."}
    fake_api.on("GET", "/v1/tools", Answer({"tools": [tool]}), problem(503, "Down", "Temporal is down."))
    found = rows(outlast)
    assert found["Platform"] == ("fail", f"{fake_api.url} answers 503")
    assert found["Temporal"] == ("fail", "the API cannot reach it")
    assert found["Worker"][0] == "skip"
    assert found["Tools"] == ("warn", "1 tool, no tools of Actors")
    again = rows(outlast)
    assert (again["Credential"][0], again["Tools"][0]) == ("skip", "fail")
