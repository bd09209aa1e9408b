"""The units of deploy/systemd: systemd accepts them, they are hardened, and they say what the code reads."""

import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from outlast.deploy.local.temporal_server import DYNAMIC_CONFIG, SQLITE_PRAGMAS
from tests.support.deployments.settings import problems
from tests.support.deployments.systemd import read_unit
from tests.support.paths import ROOT

UNITS = ROOT / "deploy" / "systemd"
PARTS = {"outlast-worker.service": "worker", "outlast-api.service": "api"}
_EXPOSURE = "20"
"""The most that `systemd-analyze security` may find, in tenths: 10 is "fully exposed", below 2 is "OK"."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a machine on which the units and their programs are installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    root = tmp_path_factory.mktemp("machine")
    system = root / "etc" / "systemd" / "system"
    shutil.copytree(UNITS, system)
    drop_in = system / "outlast-worker.service.d" / "commands.conf"
    for name in ("opt/outlast/bin/python", "opt/outlast/bin/temporal", "bin/kill"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", root / name)
    targets = root / "usr" / "lib" / "systemd" / "system"
    targets.mkdir(parents=True)
    for target in Path("/usr/lib/systemd/system").glob("*.target"):
        shutil.copy(target, targets)
    shutil.copy(drop_in.with_suffix(".conf.example"), drop_in)
    return root


def analyze(machine: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    options = [f"--root={machine}", "--no-pager"]
    return subprocess.run(["systemd-analyze", *command, *options], capture_output=True, text=True, check=False)


def test_systemd_accepts_the_units(machine: Path) -> None:
    names = [path.name for path in UNITS.glob("*.service")]
    assert len(names) == 3
    verified = analyze(machine, "verify", "--recursive-errors=no", *names)
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.parametrize("unit", ["outlast-api.service", "outlast-temporal.service"])
def test_little_of_the_machine_is_open_to_a_unit(machine: Path, unit: str) -> None:
    rated = analyze(machine, "security", "--offline=true", f"--threshold={_EXPOSURE}", unit)
    assert rated.returncode == 0, rated.stdout


@pytest.mark.parametrize(("unit", "process"), PARTS.items())
def test_the_settings_of_a_unit_are_settings(unit: str, process: str, tmp_path: Path) -> None:
    read = read_unit(UNITS / unit)
    assert problems(process, read.environment, tmp_path) == []
    loaded = {value.partition(":")[0] for value in read.all("LoadCredential")}
    used = {Path(path).name for path in read.environment.values() if path.startswith("/run/credentials/")}
    assert used == loaded
    assert read.one("ExecStart") == f"/opt/outlast/bin/python -P -m outlast.{process}"


def test_a_worker_is_killed_only_after_its_activities_had_their_time() -> None:
    worker = read_unit(UNITS / "outlast-worker.service")
    assert float(worker.one("TimeoutStopSec")) > float(worker.environment["OUTLAST_SHUTDOWN_SECONDS"])


def test_temporal_has_the_flags_of_the_embedded_server() -> None:
    command = shlex.split(read_unit(UNITS / "outlast-temporal.service").one("ExecStart"))
    given = dict(pairwise(command))
    assert {value for value in command if "=" in value} == {
        f"{key}={value}" for key, value in {**DYNAMIC_CONFIG, **SQLITE_PRAGMAS}.items()
    }
    assert given["--ip"] == given["--ui-ip"] == "127.0.0.1"


def test_the_example_of_a_settings_file_holds_settings(tmp_path: Path) -> None:
    text = (UNITS / "outlast.env.example").read_text()
    lines = [line.removeprefix("#") for line in text.splitlines() if "=" in line and " " not in line]
    given = dict(line.split("=", 1) for line in lines)
    assert len(given) >= 4
    for unit, process in PARTS.items():
        assert problems(process, {**read_unit(UNITS / unit).environment, **given}, tmp_path) == []
