"""One Outlast that a real Prometheus scrapes; its models are played by `tests.support.providers.server`."""

import json
from collections.abc import Iterator

import pytest

from tests.support.mcp.effects_setting import server_entry
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture
from tests.support.stacks.prometheus import Prometheus, Targets, running_prometheus
from tests.support.stacks.service import Service

provider = provider_fixture()
service = service_fixture(settings_from="settings")
sandbox = sandbox_fixture()
api = http_fixture()
temporal = temporal_fixture()


@pytest.fixture(scope="session")
def settings(provider: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    audit = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    servers = tmp_path_factory.mktemp("servers") / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"notes": server_entry()}}))
    return {
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
        "OUTLAST_AUDIT_FILE": str(audit),
        "OUTLAST_MCP_SERVERS_FILE": str(servers),
        "OUTLAST_TOOL_MASKING": "true",
        **provider.environment,
    }


@pytest.fixture(scope="module")
def prometheus(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), Targets.of(service)) as running:
        yield running
