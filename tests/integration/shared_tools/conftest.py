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
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.service import Service

KEYS = {name: f"key-of-caller-number-{name}" for name in ("one", "two")}
SKILL = "---\nname: invoices\ndescription: How to check invoices.\n---\n# Invoices\nSee rules/vat.md.\n"

full_service = service_fixture(sandbox_from="shared_sandbox", settings_from="settings", callers=KEYS)
plain_service = service_fixture(sandbox_from="shared_sandbox")


@pytest.fixture(scope="package")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("shared-sandbox")) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def reachable() -> Iterator[Path]:
    """A folder that commands can reach, which are nobody's when the tests are root's; pytest's own are its owner's."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-workspaces-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def skills_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    (root / "invoices" / "rules").mkdir(parents=True)
    (root / "invoices" / "SKILL.md").write_text(SKILL)
    (root / "invoices" / "rules" / "vat.md").write_text("7 % or 19 %")
    (root / "invoices" / "rules" / "long.md").write_text("A long rule.\n" * 5_000)
    return root


@pytest.fixture(scope="package")
def session_receiver() -> Iterator[WebhookReceiver]:
    with receiving_webhooks() as receiver:
        yield receiver


@pytest.fixture
def receiver(session_receiver: WebhookReceiver) -> WebhookReceiver:
    """The webhook of the service that has one, with nothing received yet."""
    session_receiver.received.clear()
    session_receiver.answers.clear()
    return session_receiver


@pytest.fixture(scope="package")
def settings(session_receiver: WebhookReceiver, skills_dir: Path, reachable: Path) -> dict[str, str]:
    return {
        "OUTLAST_RESPONDER_WEBHOOK_URL": session_receiver.url,
        "OUTLAST_SKILLS_DIR": str(skills_dir),
        "OUTLAST_WORKSPACE_DIR": str(reachable / "service"),
        "OUTLAST_ENABLE_READ": "true",
        "OUTLAST_ENABLE_BASH": "true",
        "A_SECRET_OF_THE_WORKER": "secretOfTheWorker",
    }


@pytest.fixture
async def full(full_service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Caller one of the service that has everything."""
    async with caller_of(full_service, "one") as client:
        yield client


def caller_of(service: Service, name: str) -> httpx.AsyncClient:
    """An HTTP client that is this caller."""
    return service.http(KEYS[name])


@pytest.fixture
async def plain(plain_service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_service.http() as client:
        yield client


@pytest.fixture
async def full_temporal(full_service: Service) -> Client:
    return await connect(full_service.temporal_address)


@pytest.fixture
async def plain_temporal(plain_service: Service) -> Client:
    return await connect(plain_service.temporal_address)
