"""The pytest plugin of Outlast: the fixture `outlast_stack`, and the setting `outlast_tools` of pytest.ini."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from outlast.client import Client

_START_SECONDS = "180"
_PARTS = ("API", "SANDBOX", "WORKER_METRICS", "TEMPORAL", "TEMPORAL_UI", "TEMPORAL_HTTP", "TEMPORAL_METRICS")


@dataclass(frozen=True)
class Stack:
    """An embedded stack that runs."""

    url: str
    """Address of its API."""
    data_dir: Path

    def client(self) -> "Client":
        """Return a client of it: `with outlast_stack.client() as client: ...`."""
        from outlast.client import Client  # noqa: PLC0415 (pytest loads this plugin in every run)

        return Client(self.url)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `outlast_tools` to pytest's configuration."""
    text = "Files, modules or folders with the tools of the fixture outlast_stack."
    parser.addini("outlast_tools", text, type="args", default=[])


@pytest.fixture(scope="session")
def outlast_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An embedded stack with the tools of `outlast_tools`. It starts once in a session, on free ports."""
    tools = [str(name) for name in request.config.getini("outlast_tools")]
    with running_stack(tmp_path_factory.mktemp("outlast"), tools, folder=request.config.rootpath) as stack:
        yield stack


@contextmanager
def running_stack(data_dir: Path, tools: list[str], *, folder: Path) -> Generator[Stack]:
    """Run `outlast up` with these tools, from `folder`. Raises `RuntimeError` with its output if it does not start."""
    command = [sys.executable, "-m", "outlast.cli", "up", "--json", "--data-dir", str(data_dir)]
    command += ["--tools-from", ",".join(tools)] if tools else []
    ports = {f"OUTLAST_{part}_PORT": "0" for part in _PARTS}  # any free ones
    environment = {**os.environ, **ports, "OUTLAST_READY_TIMEOUT": _START_SECONDS}
    log = data_dir / "up.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "up":
                    yield Stack(event["addresses"]["api_url"], data_dir)
                    return
            raise RuntimeError(f"The stack did not start:\n{log.read_text()}")
        finally:
            process.terminate()
            process.stdout.close()
            process.wait()
