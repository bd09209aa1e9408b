"""One Outlast that sends its traces to a collector of the tests; its models are scripted."""

from collections.abc import Iterator

import pytest

from tests.support.http.otlp import Collector, collecting
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture

provider = provider_fixture()
service = service_fixture(settings_from="settings", tools=["tests.support.tools.protocol_tools"])
sandbox = sandbox_fixture()
api = http_fixture()


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="session")
def settings(provider: ProviderServer, collector: Collector) -> dict[str, str]:
    return {
        "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
        "OUTLAST_OTLP_ENDPOINT": collector.url,
        "OUTLAST_OTLP_HEADERS": "authorization=Bearer%20of-the-collector",
        "OUTLAST_OTLP_METRICS": "true",
        "OUTLAST_SLOW_TASK_SECONDS": "0.001",
        "OUTLAST_LOG_LEVEL": "warning",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OUTLAST_MODEL_LIMITS": '{"anthropic/m": {}}',
        **provider.environment,
    }
