"""A command line and a server that says what the test wants."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outlast.cli import runner
from outlast.cli.main import command_line
from tests.support.http.fake_api import FakeApi, running_fake_api


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Standard error without its line breaks."""
        return " ".join(self.err.split())

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Outlast = Callable[..., Ended]


@pytest.fixture
def fake_api() -> Iterator[FakeApi]:
    with running_fake_api() as api:
        yield api


@pytest.fixture(autouse=True)
def clean_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of this shell, an empty working directory, and short pauses between attempts."""
    for name in [name for name in os.environ if name.startswith(("OUTLAST_", "TEMPORAL_", "APIFY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "RETRIES", replace(runner.RETRIES, first_pause_seconds=0.01))


@pytest.fixture
def outlast(fake_api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outlast:
    """Run `outlast ARGUMENTS` against the fake API, in this process, with a data directory of its own."""
    monkeypatch.setenv("OUTLAST_URL", fake_api.url)
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))  # the checkout's is other tests' at times

    def run(*arguments: str, stdin: str | None = None) -> Ended:
        result = CliRunner().invoke(command_line(), list(arguments), input=stdin, prog_name="outlast")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run
