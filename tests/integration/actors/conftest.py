"""Fixtures: running an Actor, and a web site on a loopback address for it to crawl."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration.actors.actor_process import ActorProcess, ActorRun, actor_module, start_actor
from tests.integration.actors.local_site import LocalSite


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., ActorProcess]]:
    """Start an Actor: `launch("sleeper", {"seconds": 1})`."""
    started: list[ActorProcess] = []

    def start(name: str, run_input: object, **environment: str) -> ActorProcess:
        started.append(start_actor(name, run_input, tmp_path / f"storage-{len(started)}", **environment))
        return started[-1]

    yield start
    for actor in started:
        actor.process.kill()
        actor.process.communicate()


@pytest.fixture
def run_actor(launch: Callable[..., ActorProcess]) -> Callable[..., ActorRun]:
    """Run an Actor to its end: `run_actor("sleeper", {"seconds": 1})`."""

    def run(name: str, run_input: object, **environment: str) -> ActorRun:
        return launch(name, run_input, **environment).wait()

    return run


@pytest.fixture
def site() -> Iterator[LocalSite]:
    """A web site without pages; tests add theirs."""
    with LocalSite() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def settings_of() -> Callable[[str], ModuleType]:
    """The `settings` module of an Actor."""
    return lambda actor: actor_module(actor, "settings")
