"""deploy/compose: the settings of its containers, the secrets that `up` makes, and what its parts tell each other."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from outlast.activities.secrets import SecretSealer
from outlast.api.settings import ApiSettings
from outlast.deploy.local.temporal_server import DYNAMIC_CONFIG
from tests.support.deployments.settings import problems
from tests.support.paths import ROOT

COMPOSE = ROOT / "deploy" / "compose"
FILE: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]


@pytest.mark.parametrize("process", ["worker", "api"])
def test_the_settings_of_a_container_are_settings(process: str, tmp_path: Path) -> None:
    service = SERVICES[process]
    environment: Mapping[str, str] = service["environment"]
    assert problems(process, environment, tmp_path) == []
    files = {Path(path).name for path in environment.values() if path.startswith("/run/secrets/")}
    assert files == set(service["secrets"])
    assert service["command"] == [f"outlast.{process}"]


def test_the_namespace_is_set_up_as_a_command_that_there_is() -> None:
    service = SERVICES["temporal-namespace"]
    module, *arguments = service["command"]
    told = subprocess.run([sys.executable, "-P", "-m", module, *arguments, "--help"], capture_output=True, check=True)
    assert b"the namespace, its retention" in told.stdout
    assert {f"{name}={value}" for name, value in service["environment"].items()} < {
        f"{name}={value}" for name, value in SERVICES["worker"]["environment"].items()
    }


def test_an_unknown_a_missing_and_a_wrong_variable_are_told(tmp_path: Path) -> None:
    environment = dict(SERVICES["api"]["environment"])
    assert problems("api", {**environment, "OUTLAST_API_HOSTS": "x"}, tmp_path) != []
    assert problems("api", {**environment, "OUTLAST_RUN_SLOTS": "5"}, tmp_path) != []
    assert problems("api", {**environment, "OUTLAST_MODE": "no such mode"}, tmp_path) != []
    environment.pop("OUTLAST_API_KEYS_FILE")
    assert any("missing" in problem for problem in problems("api", environment, tmp_path))


def test_a_worker_is_killed_only_after_its_activities_had_their_time() -> None:
    worker = SERVICES["worker"]
    grace = float(worker["stop_grace_period"].removesuffix("s"))
    assert grace > float(worker["environment"]["OUTLAST_SHUTDOWN_SECONDS"])


def test_containers_of_outlast_have_no_rights_and_nothing_is_published_beyond_this_machine() -> None:
    for process in ("worker", "api"):
        service = SERVICES[process]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 5
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert {name for name in ("postgres", "temporal", "seaweedfs") if SERVICES[name]["networks"] != ["inside"]} == set()


def test_every_file_that_is_mounted_is_there() -> None:
    mounted = {entry.split(":")[0] for service in SERVICES.values() for entry in service.get("volumes", [])}
    folders = {place for place in mounted if place.startswith(".")}
    assert {place for place in folders if not (COMPOSE / place).exists()} <= {"../grafana/dashboards"}
    assert {place for place in mounted - folders if place not in FILE["volumes"]} == set()


def test_temporal_is_told_what_the_embedded_server_is_told() -> None:
    values = yaml.safe_load((COMPOSE / "temporal" / "dynamic-config.yaml").read_text())
    told = {key: str(entry["value"]).lower() for key, (entry,) in values.items()}
    assert told.items() <= DYNAMIC_CONFIG.items()
    assert told["matching.enableFairness"] == "true"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A copy of the folder in which `up` has run, with a stand-in for Docker that says what it was asked."""
    folder = tmp_path / "compose"
    shutil.copytree(COMPOSE, folder, ignore=shutil.ignore_patterns("secrets"))
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/asked"\n')
    docker.chmod(0o755)
    run_up(folder, APIFY_TOKEN="a-token")
    return folder


def run_up(folder: Path, **environment: str) -> str:
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.defpath}"
    ended = subprocess.run(
        [folder / "up"], env={"PATH": path, **environment}, capture_output=True, text=True, check=True
    )
    return ended.stdout + ended.stderr


def test_up_makes_secrets_that_the_processes_accept_and_keeps_them(made: Path) -> None:
    secrets = made / "secrets"
    assert {path.name for path in secrets.iterdir()} == set(FILE["secrets"])
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert ApiSettings(api_keys=SecretStr((secrets / "api_keys").read_text().strip())).api_keys is not None
    SecretSealer.from_file(secrets / "seal_keys")
    (identity,) = json.loads((secrets / "s3_identities").read_text())["identities"]
    (credentials,) = identity["credentials"]
    assert credentials["secretKey"] == (secrets / "s3_secret_key").read_text().strip()
    before = {path.name: path.read_text() for path in secrets.iterdir()}
    run_up(made, APIFY_TOKEN="another")
    assert {path.name: path.read_text() for path in secrets.iterdir()} == before
    assert before["apify_token"] == "a-token\n"
    assert (made.parent / "bin" / "asked").read_text().splitlines() == ["compose up --detach --build"] * 2
