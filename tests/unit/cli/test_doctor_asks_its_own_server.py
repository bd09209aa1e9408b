"""`outlast doctor` asks nothing of a program that has taken the port of a stack's API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from outlast.cli.checks.components import Surroundings, clocks
from outlast.cli.checks.machine import check_clock, check_limits
from outlast.cli.options import Options
from outlast.deploy.local.stack import DataDirectoryLock
from outlast.deploy.local.state import StackAddresses, StackState, write_state

NEAR = 'outlast_limit_near_ratio{caller="key:flo",limit="queued_tasks"} 1.0'


class Server(ThreadingHTTPServer):
    """Answers everything with the metrics of a full queue, as the stack with the id `instance`."""

    def __init__(self, instance: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.instance = instance
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)
        body = f"# TYPE outlast_limit_near_ratio gauge\n{NEAR}\n".encode()
        self.send_response(200)
        self.send_header("Outlast-Instance", self.server.instance)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        """Nothing is logged."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def options(server: Server, tmp_path: Path) -> Iterator[Options]:
    """Of a command beside a stack that runs on the data directory, with the server at its API's address."""
    url = f"http://127.0.0.1:{server.server_port}"
    state = StackState(
        instance_id="this-one", pid=1, started_at="", addresses=StackAddresses(api_url=url), parts={}, ports={}
    )
    write_state(tmp_path, state)
    lock = DataDirectoryLock(tmp_path).acquire()
    yield Options(data_dir=tmp_path)
    lock.release()


@pytest.mark.parametrize("server", ["another"], indirect=True)
async def test_a_stranger_is_asked_neither_for_its_metrics_nor_for_the_time(server: Server, options: Options) -> None:
    assert (await check_limits(options)).health == "skip"
    assert (await check_clock(clocks(options, Surroundings(options.data_dir, None, {})))).health == "skip"
    assert set(server.asked) == {"/healthz"}


@pytest.mark.parametrize("server", ["this-one"], indirect=True)
async def test_the_stack_is_asked_for_both(server: Server, options: Options) -> None:
    limits = await check_limits(options)
    assert (limits.health, limits.finding) == ("warn", "key:flo uses 100% of queued_tasks")
    assert (await check_clock(clocks(options, Surroundings(options.data_dir, None, {})))).health == "ok"
