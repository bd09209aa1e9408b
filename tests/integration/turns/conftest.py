"""One Outlast whose models are played by `tests.support.providers.server`."""

import json

import pytest

from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, service_fixture

provider = provider_fixture()
service = service_fixture(
    settings_from="settings", tools=["tests.support.tools.protocol_tools", "tests.support.tools.back_end_tools"]
)
api = http_fixture()


@pytest.fixture(scope="session")
def settings(provider: ProviderServer) -> dict[str, str]:
    return {
        "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
        "OUTLAST_TOOL_MASKING": "true",
        "OUTLAST_DELTA_SECONDS": "0.2",
        "OUTLAST_MODEL_PRICES": '{"generic/priced": {"input": 1000, "output": 1000}}',
        "OUTLAST_MODEL_LIMITS": json.dumps(
            {
                "generic/small": {"output": 300},
                "generic/greedy": {"output": 100},
                "generic/windowed": {"window": 16_000},
                "generic/own-eyes": {"pictures": True},
                "generic/blind": {"pictures": False},
                **{f"{provider_id}/m*": {} for provider_id in ("openai", "anthropic", "zai")},
                **{f"{provider_id}/nobody-knows": {} for provider_id in ("openai", "anthropic", "zai")},
            }
        ),
        **provider.environment,
    }
