"""The whole of Outlast, as a user starts it: `outlast up` in a process of its own."""

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.state import StackAddresses
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.stack_config import clean_environment

_START_SECONDS = 180
_PORTS = ("API", "SANDBOX", "WORKER_METRICS", "TEMPORAL", "TEMPORAL_UI", "TEMPORAL_HTTP", "TEMPORAL_METRICS")


def stack_environment() -> dict[str, str]:
    """The environment of a command that starts a stack: each part on a free port, and with time for a slow machine.

    It has the secret of docs/examples/hello_tools.py, without which `outlast doctor` warns.
    """
    ports = {f"OUTLAST_{part}_PORT": str(free_port()) for part in _PORTS}
    return clean_environment(**ports, OUTLAST_READY_TIMEOUT=str(_START_SECONDS), BANK_KEY="test-value")


@dataclass
class RunningStack:
    """A stack that is up. `events` is what it has said since it was started, and grows."""

    data_dir: Path
    process: "subprocess.Popen[str]"
    addresses: StackAddresses
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_up: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """For commands that shall find this stack."""
        return clean_environment(OUTLAST_DATA_DIR=str(self.data_dir))

    def pid(self, component: str) -> int:
        """The process that a part runs as, now."""
        return json.loads((self.data_dir / "stack.json").read_text())["parts"][component]["pid"]

    def collect_events(self) -> None:
        """Read what it says, to the end."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                event = json.loads(line)
                if event["event"] == "up":
                    self.addresses = StackAddresses.model_validate(event["addresses"])
                    self.is_up.set()
                self.events.append(event)
        self.is_up.set()

    def await_up(self) -> None:
        """Return when everything is ready."""
        self.is_up.wait(_START_SECONDS)
        if not self.addresses.api_url:
            raise AssertionError(f"the stack does not come up: {self.events}")

    def said(self, event: str, component: str) -> int:
        """How often it has said this."""
        return sum(1 for said in self.events if said["event"] == event and said.get("component") == component)


@contextmanager
def running_stack(data_dir: Path, *options: str, **settings: str) -> Iterator[RunningStack]:
    """Run `outlast up` with these options and variables on free ports.

    At the end it is stopped as by Ctrl-C, and has to end well; unless the test has killed it.
    """
    environment = {**stack_environment(), **settings}
    with (data_dir.parent / f"{data_dir.name}.err").open("wb") as errors:
        process = subprocess.Popen(
            outlast_command("up", "--json", "--data-dir", str(data_dir), *options),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=die_with_parent(),
        )
    stack = RunningStack(data_dir, process, StackAddresses())
    reader = threading.Thread(target=stack.collect_events)
    reader.start()
    try:
        stack.await_up()
        yield stack
        if process.poll() != -signal.SIGKILL:
            process.send_signal(signal.SIGINT)
            assert process.wait(180) == 0
    finally:
        process.kill()
        process.wait()
        reader.join()
