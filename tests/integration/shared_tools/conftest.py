"""The shared tools through worker and API processes: with everything configured, and with nothing."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from tests.support.http.webhooks import WebhookReceiver, receiving_webhooks
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.service import Service, running_service
from tests.support.stacks.temporal import running_temporal

SKILL = "---\nname: invoices\ndescription: How to check invoices.\n---\n# Invoices\nSee rules/vat.md.\n"


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("shared-sandbox")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def reachable() -> Iterator[Path]:
    """A folder that commands can reach, which are nobody's when the tests are root's; pytest's own are its owner's."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-workspaces-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def skills_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    (root / "invoices" / "rules").mkdir(parents=True)
    (root / "invoices" / "SKILL.md").write_text(SKILL)
    (root / "invoices" / "rules" / "vat.md").write_text("7 % or 19 %")
    (root / "invoices" / "rules" / "long.md").write_text("A long rule.\n" * 5_000)
    return root


@pytest.fixture(scope="session")
def session_receiver() -> Iterator[WebhookReceiver]:
    with receiving_webhooks() as receiver:
        yield receiver


@pytest.fixture
def receiver(session_receiver: WebhookReceiver) -> WebhookReceiver:
    """The webhook of the service that has one, with nothing received yet."""
    session_receiver.received.clear()
    session_receiver.answers.clear()
    return session_receiver


@pytest.fixture(scope="session")
def full_service(
    tmp_path_factory: pytest.TempPathFactory,
    shared_sandbox: Sandbox,
    session_receiver: WebhookReceiver,
    skills_dir: Path,
    reachable: Path,
) -> Iterator[Service]:
    settings = {
        "OUTLAST_RESPONDER_WEBHOOK_URL": session_receiver.url,
        "OUTLAST_SKILLS_DIR": str(skills_dir),
        "OUTLAST_WORKSPACE_DIR": str(reachable / "service"),
        "OUTLAST_ENABLE_READ": "true",
        "OUTLAST_ENABLE_BASH": "true",
        "OUTLAST_API_KEYS": "one:key-of-caller-number-one,two:key-of-caller-number-two",
        "A_SECRET_OF_THE_WORKER": "secretOfTheWorker",
    }
    with (
        running_temporal(tmp_path_factory.mktemp("full-temporal")) as temporal,
        running_service(tmp_path_factory.mktemp("full"), temporal.address, shared_sandbox, **settings) as service,
    ):
        yield service


@pytest.fixture(scope="session")
def plain_service(tmp_path_factory: pytest.TempPathFactory, shared_sandbox: Sandbox) -> Iterator[Service]:
    with (
        running_temporal(tmp_path_factory.mktemp("plain-temporal")) as temporal,
        running_service(tmp_path_factory.mktemp("plain"), temporal.address, shared_sandbox) as service,
    ):
        yield service


@pytest.fixture
async def full(full_service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Caller one of the service that has everything."""
    async with caller_of(full_service, "one") as client:
        yield client


def caller_of(service: Service, name: str) -> httpx.AsyncClient:
    """An HTTP client that is this caller."""
    headers = {"Authorization": f"Bearer key-of-caller-number-{name}"}
    return httpx.AsyncClient(base_url=service.api_url, headers=headers, trust_env=False, timeout=60)


@pytest.fixture
async def plain(plain_service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=plain_service.api_url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
async def full_temporal(full_service: Service) -> Client:
    return await connect(full_service.temporal_address)


@pytest.fixture
async def plain_temporal(plain_service: Service) -> Client:
    return await connect(plain_service.temporal_address)
