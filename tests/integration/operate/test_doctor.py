"""`outlast doctor` against a deployment: each thing is broken, and its row says so."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from temporalio.api.common.v1 import WorkerVersionCapabilities
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    PollWorkflowTaskQueueRequest,
    RegisterNamespaceRequest,
)
from temporalio.client import Client

from outlast.api import health
from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.access.policy.policy_file import add_key
from outlast.api.operations import served_queues
from outlast.cli.checks import machine, settings
from outlast.cli.checks import temporal as temporal_rows
from outlast.cli.checks.components import Surroundings, check_policy
from outlast.cli.checks.machine import check_clock, clock_at
from outlast.contracts.checks import Check
from outlast.worker.search_attributes import DATETIME, register_search_attributes
from outlast.workflows.contracts.queues import QUEUES, SCHEDULES_TASK_QUEUE, TOOLS_TASK_QUEUE
from tests.support.eventually import eventually
from tests.support.stacks.service import Service

Rows = dict[str, tuple[str, str]]
NOBODY = partial(clock_at, "http://127.0.0.1:1")


def told(check: Check) -> tuple[str, str]:
    assert check.health in ("ok", "skip") or check.advice
    return str(check.health), check.finding


async def rows_of(client: Client, namespace: str) -> Rows:
    """What doctor says of a namespace."""
    address = client.service_client.config.target_host
    environment = {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace}
    rows = await temporal_rows.check_namespace(Surroundings(Path("nowhere"), None, environment))
    return {row.name: told(row) for row in rows}


@pytest.fixture
async def bare(temporal: Client) -> Client:
    """A namespace in which nothing was done."""
    name = f"bare-{uuid4().hex[:8]}"
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await temporal.workflow_service.register_namespace(request)

    async def known() -> bool:
        found = await rows_of(temporal, name)
        assert "Queues" in found, found
        return True

    await eventually(known, interval_seconds=0.5)
    return await Client.connect(temporal.service_client.config.target_host, namespace=name)


async def test_a_namespace_that_is_served_is_well(temporal: Client, service: Service) -> None:
    found = await rows_of(temporal, service.namespace)
    assert found["Temporal namespace"][0] == found["Search attributes"][0] == found["Worker versions"][0] == "ok"
    assert found["Queues"] == ("ok", "0 waiting, none for more than a minute")


async def test_a_namespace_without_attributes_and_workers(bare: Client) -> None:
    found = await rows_of(bare, bare.namespace)
    assert found["Search attributes"][0] == "fail"
    assert "OutlastTaskStatus" in found["Search attributes"][1]
    assert found["Queues"] == ("fail", f"no worker serves {', '.join(QUEUES.values())}")
    assert found["Worker versions"][0] == "skip"
    assert found["Retention"][0] == "warn"
    await bare.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=bare.namespace, search_attributes={"OutlastTool": DATETIME})
    )
    with suppress(RuntimeError):
        await register_search_attributes(bare)

    async def only_the_wrong_type() -> bool:
        row = (await rows_of(bare, bare.namespace))["Search attributes"]
        assert row == ("fail", "missing or with another type: OutlastTool")
        return True

    await eventually(only_the_wrong_type, interval_seconds=0.5)


async def test_a_namespace_with_workers_and_without_an_api(bare: Client) -> None:
    async with asking(bare, "worker", "1.0"):
        pass
    found = await rows_of(bare, bare.namespace)
    assert found["Queues"] == ("fail", "no API serves outlast-schedules")


async def test_steps_that_wait_for_long_and_workers_of_two_versions(
    bare: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(bare, "one", "1.0"), asking(bare, "two", "2.0", SCHEDULES_TASK_QUEUE):
        pass
    for number in range(3):
        await bare.start_workflow("Nothing", id=f"w{number}", task_queue=TOOLS_TASK_QUEUE)
    monkeypatch.setattr(health, "_SLOW_SECONDS", 0)

    async def noticed() -> bool:
        found = await rows_of(bare, bare.namespace)
        assert found["Queues"][0] == "warn", found
        assert f"{TOOLS_TASK_QUEUE}: 3 workflows wait, the first for" in found["Queues"][1]
        assert found["Worker versions"] == ("warn", "2 workers of different versions: 1.0 (1), 2.0 (1)")
        return True

    await eventually(noticed, interval_seconds=0.5)


@asynccontextmanager
async def asking(client: Client, identity: str, version: str, *others: str) -> AsyncIterator[None]:
    """Have a worker ask every queue of workers, and others, for work, and leave before it gets any."""
    capabilities = WorkerVersionCapabilities(build_id=version)
    service, namespace = client.workflow_service, client.namespace

    def queue(name: str) -> TaskQueue:
        return TaskQueue(name=name, kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL)

    polls = [
        asyncio.ensure_future(
            service.poll_activity_task_queue(
                PollActivityTaskQueueRequest(
                    namespace=namespace,
                    task_queue=queue(name),
                    identity=identity,
                    worker_version_capabilities=capabilities,
                )
            )
        )
        for name in (*QUEUES.values(), *others)
    ]
    workflows = PollWorkflowTaskQueueRequest(
        namespace=namespace,
        task_queue=queue(TOOLS_TASK_QUEUE),
        identity=identity,
        worker_version_capabilities=capabilities,
    )
    asked: list[asyncio.Future[Any]] = [*polls, asyncio.ensure_future(service.poll_workflow_task_queue(workflows))]

    async def seen() -> bool:
        served = await served_queues(client)
        assert [worker for worker in served.workers if worker.identity == identity and len(worker.queues) == 5]
        return {*others} <= {queue.queue for queue in served.queues if queue.pollers}

    try:
        await eventually(seen, interval_seconds=0.2)
        yield
    finally:
        for poll in asked:
            poll.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_a_namespace_and_a_server_that_are_not_there(
    temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = await rows_of(temporal, "not-there")
    assert missing["Temporal namespace"][0] == "fail"
    assert "not-there" in missing["Temporal namespace"][1]
    around = Surroundings(tmp_path, None, {"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert [told(row)[0] for row in await temporal_rows.check_namespace(around)] == ["fail"]
    assert [row.health for row in await temporal_rows.check_namespace(Surroundings(tmp_path, None, {}))] == ["skip"]


@contextmanager
def server_whose_clock_is(off: timedelta) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(200)
            self.send_header("Date", format_datetime(datetime.now(UTC) + off, usegmt=True))
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("seconds", "health", "finding"),
    [(0, "ok", "as that of it"), (40, "warn", "s behind that of it"), (-600, "fail", "s ahead of that of it")],
)
async def test_a_clock_that_is_wrong(seconds: int, health: str, finding: str) -> None:
    with server_whose_clock_is(timedelta(seconds=seconds)) as url:
        found = told(await check_clock({"it": partial(clock_at, url), "nobody": NOBODY}))
    assert (found[0], finding in found[1]) == (health, True)


async def test_a_clock_that_nobody_compares() -> None:
    assert (await check_clock({"nobody": NOBODY})).health == "skip"


@pytest.mark.parametrize(
    ("days", "health", "finding"),
    [(400, "ok", "1 key"), (3, "warn", "of key:ann expires on"), (-1, "ok", "0 keys")],
)
def test_keys_that_end(tmp_path: Path, days: int, health: str, finding: str) -> None:
    path = tmp_path / "policy.toml"
    _, hashed = new_key("ann1")
    expires = datetime.now(UTC) + timedelta(days=days)
    add_key(path, KeyEntry(id="ann1", caller="key:ann", hash=str(hashed), expires=expires))
    found = told(check_policy({"OUTLAST_POLICY_FILE": str(path)}))
    assert (found[0], finding in found[1]) == (health, True)


def test_a_policy_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[defaults]\nlimit = 3\n")
    for name in ("policy.toml", "missing.toml"):
        assert told(check_policy({"OUTLAST_POLICY_FILE": str(tmp_path / name)}))[0] == "fail"
    assert check_policy({}).health == "skip"


@pytest.mark.parametrize(
    ("days", "health"), [(365, "ok"), (5, "warn"), (-1, "fail"), (None, "fail")], ids=["long", "soon", "over", "none"]
)
def test_a_certificate_that_ends(tmp_path: Path, days: int | None, health: str) -> None:
    path = tmp_path / "client.pem"
    path.write_bytes(b"no certificate" if days is None else certificate(datetime.now(UTC) + timedelta(days=days)))
    assert told(temporal_rows.check_certificate({"TEMPORAL_TLS_CLIENT_CERT_PATH": str(path)}))[0] == health


def certificate(ends: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "outlast")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    dated = builder.not_valid_before(ends - timedelta(days=400)).not_valid_after(ends)
    return dated.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_a_store_that_is_slow_or_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_STORE_URL", str(tmp_path / "store"))
    health, finding = told(await settings.check_store(tmp_path))
    assert (health, "written and read in" in finding) == ("ok", True)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []
    monkeypatch.setattr(settings, "_SLOW_STORE_SECONDS", 0)
    assert told(await settings.check_store(tmp_path))[0] == "warn"
    (tmp_path / "store" / "doctor").write_text("in the way")
    assert told(await settings.check_store(tmp_path))[0] == "fail"


async def test_the_store_of_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_STORE_URL", raising=False)
    assert told(await settings.check_store(tmp_path))[0] == "skip"
    (tmp_path / "outputs").write_text("a file where a folder should be")
    assert told(await settings.check_store(tmp_path))[0] == "fail"
    (tmp_path / "outputs").unlink()
    (tmp_path / "outputs").mkdir()
    assert told(await settings.check_store(tmp_path)) == ("ok", "in the data directory")


@pytest.mark.parametrize("variable", ["OUTLAST_STORE_URL", "OUTLAST_AUDIT_FILE"])
def test_a_disk_that_is_full_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(machine, "free_bytes", lambda path: 100 if path == elsewhere else 10**12)
    value = elsewhere / "audit.jsonl" if variable == "OUTLAST_AUDIT_FILE" else elsewhere
    health, finding = told(machine.check_disk(tmp_path, {variable: str(value)}))
    assert (health, str(elsewhere) in finding) == ("fail", True)
    assert machine.check_disk(tmp_path, {variable: "-", "OUTLAST_STORE_URL": "s3://bucket/prefix"}).health == "ok"
