"""One Outlast whose models are scripted, and which heeds masks."""

import pytest

from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import ModelStack, service_fixture
from tests.support.stacks.service import Service

provider = provider_fixture()
service = service_fixture(
    settings_from="settings", tools=["tests.support.tools.protocol_tools", "tests.support.tools.archive_tool"]
)


@pytest.fixture(scope="session")
def settings(provider: ProviderServer) -> dict[str, str]:
    return {
        "OUTLAST_DEFAULT_TOOLS": "dev,restore-tool-output",
        "OUTLAST_TOOL_MASKING": "true",
        "OUTLAST_MODEL_LIMITS": '{"openai/*": {}, "anthropic/*": {}, "zai/*": {}}',
        **provider.environment,
    }


@pytest.fixture
def stack(provider: ProviderServer, service: Service) -> ModelStack:
    return ModelStack(provider, service)
