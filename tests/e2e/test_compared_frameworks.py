"""The programs of FastMCP and DBOS in docs/compared.md do what the page says, in environments of their own."""

import csv
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.deploy.local.orphans import die_with_parent
from tests.support.compared import PROGRAMS
from tests.support.eventually import eventually
from tests.support.http.shop import SECRET, Shop, running_receiver, running_shop
from tests.support.ports import free_port
from tests.support.processes.installed import python_with

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(900)]

FASTMCP = ("fastmcp==4.1.2", "httpx==0.28.1", "pytest==9.2.0", "pytest-asyncio==1.5.0")
DBOS = ("dbos==3.4.0", "httpx==0.28.1", "pytest==9.2.0", "standardwebhooks==1.1.0")
"""Versions that docs/compared.md names, and what the programs import besides."""
ITEMS = [f"item-{number}" for number in range(500)]
DBOS_CLIENT = "from dbos import DBOSClient; client = DBOSClient(system_database_url='sqlite:///shop.sqlite'); "
FASTMCP_CLIENT = """
import asyncio
from fastmcp import Client

async def yes(message, response_type, params, context):
    return {"value": True}

async def progress(done, total, message):
    print(message)

async def main():
    handlers = {"elicitation_handler": yes, "progress_handler": progress}
    async with Client("http://127.0.0.1:8000/mcp", mode="legacy", **handlers) as client:
        print((await client.call_tool(%r, %r)).data)

asyncio.run(main())
"""


@pytest.fixture
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


class Programs:
    """The programs of one framework, in a folder of a test."""

    def __init__(self, framework: str, requirements: tuple[str, ...], folder: Path, shop: Shop) -> None:
        self.port = free_port()
        self.python = python_with(*requirements)
        self._source = PROGRAMS / framework
        self._folder = folder
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SHOP_URL": shop.url}

    def run(self, name: str) -> str:
        """What a program prints."""
        return self.output_of(str(self._copy(name)))

    def code(self, text: str) -> str:
        """What a text of Python prints."""
        return self.output_of("-c", text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}"))

    def output_of(self, *arguments: str) -> str:
        ended = subprocess.run(
            [str(self.python), *arguments],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    @contextmanager
    def app(
        self, name: str, replaced: Mapping[str, str] | None = None, **settings: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A program of DBOS that runs until it is killed."""
        program = self._copy(name, replaced)
        with self._started([str(self.python), "-u", str(program)], settings) as process:
            yield process

    @contextmanager
    def server(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A server of FastMCP on `port`."""
        options = ("--transport", "http", "--port", str(self.port))
        command = [str(self.python.with_name("fastmcp")), "run", str(self._copy(name)), *options]
        with self._started([str(self.python), *command], {}) as process:
            yield process

    async def log_has(self, text: str) -> None:
        await eventually(lambda: text in (self._folder / "app.log").read_text())

    @contextmanager
    def _started(self, command: list[str], settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        with (self._folder / "app.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environment | settings,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _copy(self, name: str, replaced: Mapping[str, str] | None = None) -> Path:
        text = (self._source / f"{name}.py").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        for old, new in (replaced or {}).items():
            assert old in text
            text = text.replace(old, new)
        copy = self._folder / f"program_{name}.py"
        copy.write_text(text)
        return copy


def results(folder: Path) -> dict[str, str]:
    with (folder / "results.csv").open() as file:
        return {row["item"]: row["result"] for row in csv.DictReader(file)}


@pytest.fixture
def fastmcp(tmp_path: Path, shop: Shop) -> Programs:
    return Programs("fastmcp", FASTMCP, tmp_path, shop)


@pytest.fixture
def dbos(tmp_path: Path, shop: Shop) -> Programs:
    return Programs("dbos", DBOS, tmp_path, shop)


async def test_fastmcp_retries_and_its_clients(fastmcp: Programs, shop: Shop, tmp_path: Path) -> None:
    shop.failures = 2
    with fastmcp.server("01_retries"):
        await fastmcp.log_has("running on")
        assert "'result': 6" in fastmcp.run("08_mcp_client")
        assert shop.asked["/stock/ticket"] == 3
        assert fastmcp.run("09_python_client") == "6\n"
        (tmp_path / "items.csv").write_text("\n".join(["item", *ITEMS]))
        fastmcp.run("05_csv")
    assert results(tmp_path) == {item: str(len(item)) for item in ITEMS}


async def test_fastmcp_asks_the_client_that_called(fastmcp: Programs) -> None:
    with fastmcp.server("03_approval"):
        await fastmcp.log_has("running on")
        output = fastmcp.code(FASTMCP_CLIENT % ("refund", {"order": "1001", "amount": 30}))
    assert output == "Refunded 30.00 for 1001.\n"


async def test_fastmcp_reports_progress(fastmcp: Programs) -> None:
    with fastmcp.server("04_progress"):
        await fastmcp.log_has("running on")
        output = fastmcp.code(FASTMCP_CLIENT % ("pack", {"items": ["cup", "pen"]}))
    assert output == "Packing cup\nPacking pen\n2\n"


def test_fastmcp_tests(fastmcp: Programs, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    copy = fastmcp._copy("10_test")
    assert "1 passed" in fastmcp.output_of("-m", "pytest", str(copy))


async def test_dbos_retries_and_its_client(dbos: Programs, shop: Shop, tmp_path: Path) -> None:
    shop.failures = 2
    with dbos.app("01_retries"):
        await dbos.log_has("new queue")
        assert dbos.run("09_python_client") == "4711 6\n"
        assert dbos.run("09_python_client") == "4711 6\n"
        assert shop.asked["/stock/ticket"] == 3
        (tmp_path / "items.csv").write_text("\n".join(["item", *ITEMS]))
        dbos.run("05_csv")
    assert results(tmp_path) == {item: str(len(item)) for item in ITEMS}


def started(workflow: str, *arguments: object) -> str:
    """Python that starts a call with the id 1."""
    options = {"workflow_name": workflow, "queue_name": "calls", "workflow_id": "1"}
    return f"{DBOS_CLIENT} client.enqueue({', '.join(map(repr, [options, *arguments]))}); client.destroy()"


RESULT = f"{DBOS_CLIENT} print(client.retrieve_workflow('1').get_result())"


async def test_dbos_continues_after_a_kill(dbos: Programs, shop: Shop) -> None:
    with dbos.app("02_kill"):
        await dbos.log_has("new queue")
        dbos.code(started("order", "ticket", "visa"))
        await eventually(lambda: shop.asked["/ship/ticket"] == 1)
    shop.ships.set()
    with dbos.app("02_kill"):
        assert dbos.code(RESULT) == "charge visa\n"
    assert [shop.asked[path] for path in ("/reserve/ticket", "/charge/visa", "/ship/ticket")] == [1, 1, 2]


async def test_dbos_waits_for_an_approval_across_a_restart(dbos: Programs) -> None:
    with dbos.app("03_approval"):
        await dbos.log_has("new queue")
        dbos.code(started("refund", "1001", 30.0))
        assert dbos.code(f"{DBOS_CLIENT} print(client.get_event('1', 'question'))") == "Refund 30.00 for 1001?\n"
    with dbos.app("03_approval"):
        dbos.code(f"{DBOS_CLIENT} client.send('1', True, 'approval')")
        assert dbos.code(RESULT) == "Refunded 30.00 for 1001.\n"


async def test_dbos_reports_progress(dbos: Programs) -> None:
    with dbos.app("04_progress"):
        await dbos.log_has("new queue")
        dbos.code(started("pack", ["cup", "pen"]))
        assert dbos.code(RESULT) == "2\n"
        assert dbos.code(f"{DBOS_CLIENT} print(client.get_event('1', 'progress'))") == "1 of 2: Packing pen\n"


async def test_dbos_runs_a_schedule(dbos: Programs, shop: Shop) -> None:
    with dbos.app("06_schedule", {"17 2 * * *": "* * * * * *"}):
        await eventually(lambda: shop.asked["/stock/ticket"] > 1)


async def test_dbos_sends_a_webhook(dbos: Programs, tmp_path: Path) -> None:
    with running_receiver(tmp_path) as receiver:
        with dbos.app("07_webhook", HOOK_URL=receiver.url, HOOK_SECRET=SECRET):
            await dbos.log_has("new queue")
            dbos.code(started("stock", "ticket"))
            assert dbos.code(RESULT) == "6\n"
        assert receiver.verified() == ["task.completed"]


def test_dbos_tests(dbos: Programs) -> None:
    copy = dbos._copy("10_test")
    assert "1 passed" in dbos.output_of("-m", "pytest", "-p", "no:cacheprovider", str(copy))
