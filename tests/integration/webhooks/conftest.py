"""An Outlast with two callers and quick retries, and a receiver of webhooks."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.http.webhooks import WebhookReceiver, receiving_webhooks
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"
OTHERS = {f"caller-{number}": f"caller-{number}-has-its-long-key" for number in range(20)}
"""Keys of callers of whom each serves one test."""

TOOLS = ["tests.support.tools.protocol_tools", "tests.support.tools.batch_tools"]
CALLERS = {"ann": ANN, "bob": BOB, **OTHERS}
SETTINGS = {
    "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
    "OUTLAST_WEBHOOK_FIRST_PAUSE_SECONDS": "0.1",
    "OUTLAST_WEBHOOK_TIMEOUT_SECONDS": "1",
    "OUTLAST_LIMITS": '{"webhooks": 6, "webhook_deliveries": 25, "webhook_tests": 3}',
}
service = service_fixture(tools=TOOLS, callers=CALLERS, settings={**SETTINGS, "OUTLAST_WEBHOOK_RETRY_HOURS": "0.006"})
sandbox = sandbox_fixture()
api = http_fixture(ANN)
other = http_fixture(BOB)
temporal = temporal_fixture()


@pytest.fixture(autouse=True)
async def none_left(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """What a test has subscribed, the next one does not hear."""
    yield
    for webhook in (await api.get("/v1/webhooks")).json()["webhooks"]:
        answer = await api.delete(f"/v1/webhooks/{webhook['id']}")
        assert answer.status_code == 204, answer.text


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receiving_webhooks() as running:
        yield running
