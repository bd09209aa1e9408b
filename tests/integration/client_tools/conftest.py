"""One Outlast with two known callers, a real browser, and `outlast client` as processes."""

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.deploy.local.orphans import die_with_parent
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.processes.chromium import RunningBrowser, running_browser
from tests.support.processes.installed import path_with_node
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"


service = service_fixture(
    tools=["docs.examples.hello_tools", "tests.support.tools.phase_tools"],
    callers={"ann": ANN, "bob": BOB},
    permissions=["key:bob:list_tabs=ask"],
    settings={"OUTLAST_DEFAULT_TOOLS": "experimental"},
)
bob = http_fixture(BOB)


@pytest.fixture
async def api(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of ann. Of what the test leaves waiting, nothing is left to the next one."""
    async with service.http(ANN) as client:
        yield client
        for handoff in (await client.get("/v1/handoffs")).json()["handoffs"]:
            await client.post(f"/v1/tasks/{handoff['task_id']}/cancel")
        await eventually(lambda: _nothing_waits(client))


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[RunningBrowser]:
    async with running_browser(tmp_path) as running:
        yield running


@dataclass(frozen=True)
class ClientProcess:
    """A running `outlast client --yes --json`."""

    process: "subprocess.Popen[bytes]"
    said: Path

    def events(self) -> list[dict[str, Any]]:
        """Return the events so far."""
        return [json.loads(line) for line in self.said.read_text().splitlines()]

    def names(self) -> list[str]:
        """Return the names of the events so far."""
        return [event.get("event", "error") for event in self.events()]

    async def tells(self, name: str, times: int = 1) -> dict[str, Any]:
        """Wait for an event of this name, and return it."""

        def told() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.said.read_text()
            found = [event for event in self.events() if event.get("event") == name]
            return found[times - 1] if len(found) >= times else None

        return await eventually(told)

    def kill(self) -> None:
        """As the power does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


StartClient = Callable[..., ClientProcess]


@pytest.fixture
def start_client(service: Service, tmp_path: Path) -> Iterator[StartClient]:
    """Starts clients; they end with the test."""
    # One of the examples is a Node program.
    environment = clean_environment(PATH=path_with_node())
    with ExitStack() as stack:

        def start(browser_url: str, *options: str, token: str = ANN, url: str = service.api_url) -> ClientProcess:
            said = tmp_path / f"client-{len(list(tmp_path.glob('client-*')))}"
            process = subprocess.Popen(
                outlast_command("client", "--yes", "--json", "--browser-url", browser_url, *options),
                cwd=ROOT,
                env={**environment, "OUTLAST_URL": url, "OUTLAST_TOKEN": token},
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(said.open("wb")),
                preexec_fn=die_with_parent(),
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return ClientProcess(process, said)

        yield start


@pytest.fixture
def shell(service: Service) -> Mapping[str, str]:
    """The environment of somebody who types commands."""
    plain = {name: value for name, value in clean_environment().items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**plain, "OUTLAST_URL": service.api_url, "OUTLAST_TOKEN": ANN}


async def _nothing_waits(client: httpx.AsyncClient) -> bool:
    return (await client.get("/v1/handoffs")).json()["handoffs"] == []
