"""Outlast's programs of docs/compared.md do what the page says, on a stack that `outlast up` has started."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Client
from tests.support.eventually import eventually
from tests.support.http.shop import SECRET, Shop, running_receiver, running_shop
from tests.support.paths import ROOT
from tests.support.stacks.outlast_up import RunningStack, running_stack

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

COMPARED = ROOT / "docs" / "examples" / "compared"
TOOLS = sorted(COMPARED.glob("outlast/0[1-4]_*.py"))


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture(scope="module")
def stack(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    settings = {"SHOP_URL": shop.url, "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true"}
    tools = ",".join(map(str, TOOLS))
    with running_stack(tmp_path_factory.mktemp("compared") / "data", "--tools-from", tools, **settings) as stack:
        yield stack


@pytest.fixture
def client(stack: RunningStack) -> Iterator[Client]:
    with Client(str(stack.addresses.api_url)) as client:
        yield client


def run(name: str, stack: RunningStack, folder: Path, **settings: str) -> str:
    """Run a program of Outlast in `folder`, and return what it prints."""
    text = (COMPARED / "outlast" / f"{name}.py").read_text()
    program = folder / "program.py"
    program.write_text(text.replace("http://127.0.0.1:8400", str(stack.addresses.api_url)))
    environment = {**stack.environment, **settings}
    ended = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_retries(client: Client, shop: Shop) -> None:
    shop.failures = 2
    asked = shop.asked["/stock/lamp"]
    assert client.call("stock", {"item": "lamp"}).structured == {"result": 4}
    assert shop.asked["/stock/lamp"] == asked + 3


async def test_kill(client: Client, shop: Shop, stack: RunningStack) -> None:
    task = client.start("order", {"item": "ticket", "card": "visa"})
    await eventually(lambda: shop.asked["/ship/ticket"] == 1)
    os.kill(stack.pid("worker"), signal.SIGKILL)
    shop.ships.set()
    assert client.wait(task.id).text == "charge visa"
    assert [shop.asked[path] for path in ("/reserve/ticket", "/charge/visa", "/ship/ticket")] == [1, 1, 2]


async def test_approval(client: Client) -> None:
    task = client.start("refund", {"order": "1001", "amount": 30})
    await eventually(lambda: client.get(task.id).status == "input_required")
    client.answer(task.id, {"decision": "yes"})
    assert client.wait(task.id).text == "Refunded 30.00 for 1001."


def test_progress(client: Client) -> None:
    task = client.start("pack", {"items": ["cup", "pen"]})
    with client.events(task.id) as events:
        assert any("Packing pen" in json.dumps(event.data) for event in events if event.name == "status_message")


def test_csv(stack: RunningStack, tmp_path: Path) -> None:
    names = [f"item-{number}" for number in range(500)]
    (tmp_path / "items.csv").write_text("\n".join(["item", *names]))
    run("05_csv", stack, tmp_path)
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500
    assert {row["status"] for row in rows} == {"completed"}
    assert {row["key"] for row in rows} == set(names)


async def test_schedule(client: Client, stack: RunningStack, tmp_path: Path, shop: Shop) -> None:
    run("06_schedule", stack, tmp_path)
    asked = shop.asked["/stock/ticket"]
    client.schedules.trigger("nightly")
    await eventually(lambda: shop.asked["/stock/ticket"] > asked)
    assert client.schedules.get("nightly").next[0].strftime("%H:%M") == "02:17"


def test_mcp_client(stack: RunningStack, tmp_path: Path) -> None:
    assert "'result': 6" in run("08_mcp_client", stack, tmp_path)


def test_python_client(stack: RunningStack, tmp_path: Path) -> None:
    first = run("09_python_client", stack, tmp_path)
    assert "{'result': 6}" in first
    assert run("09_python_client", stack, tmp_path) == first


async def test_webhook(stack: RunningStack, tmp_path: Path) -> None:
    with running_receiver(tmp_path) as receiver:
        run("07_webhook", stack, tmp_path, HOOK_URL=receiver.url, HOOK_SECRET=SECRET)
        await eventually(receiver.file.exists)
    assert receiver.verified() == ["task.completed"]


def test_test() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", COMPARED / "outlast" / "10_test.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "1 passed" in ended.stdout, ended.stdout
