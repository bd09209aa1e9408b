"""Actors as real processes in the SDK's local storage mode, and their modules for tests of single functions."""

import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

ACTORS = Path(__file__).parents[3] / "deploy" / "local" / "actors"
TIME_LIMIT_SECONDS = 60
STATUS_MESSAGE = re.compile(r"\[(?:Terminal s|S)tatus message\]: (.*)")


@dataclass(frozen=True)
class ActorRun:
    """A finished run: how it ended and what it left."""

    exit_code: int
    log: str
    storage: Path

    @cached_property
    def rows(self) -> list[dict]:
        return [json.loads(file.read_text()) for file in sorted((self.storage / "datasets/default").glob("0*.json"))]

    @property
    def output(self) -> dict:
        return json.loads((self.storage / "key_value_stores/default/OUTPUT").read_text())

    @property
    def status_messages(self) -> list[str]:
        """All status messages in their order; the last is the final one."""
        return STATUS_MESSAGE.findall(self.log)


@dataclass
class ActorProcess:
    """A run that may still be working."""

    process: subprocess.Popen[str]
    storage: Path
    read: str = ""

    def read_until(self, text: str) -> None:
        """Follow the log until a line holds the text."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.read += line
            if text in line:
                return
        raise AssertionError(f"{text!r} never came in:\n{self.read}")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> ActorRun:
        _, rest = self.process.communicate(timeout=TIME_LIMIT_SECONDS)
        return ActorRun(self.process.returncode, self.read + rest, self.storage)


def start_actor(name: str, run_input: object, storage: Path, **environment: str) -> ActorProcess:
    """Start `python -m src` in the Actor's folder, as its Dockerfile does."""
    record = storage / "key_value_stores" / "default" / "INPUT.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(run_input))
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("APIFY_", "ACTOR_", "CRAWLEE_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "src"],
        cwd=ACTORS / name,
        env={**outside, "CRAWLEE_STORAGE_DIR": str(storage), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return ActorProcess(process, storage)


def actor_module(actor: str, module: str) -> ModuleType:
    """A module of an Actor. Every Actor's package is called `src`, so it gets another name here."""
    package = f"{actor.replace('-', '_')}_src"
    if package not in sys.modules:
        folder = ACTORS / actor / "src"
        spec = importlib.util.spec_from_file_location(
            package, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec
        assert spec.loader
        sys.modules[package] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[package])
    return importlib.import_module(f"{package}.{module}")
