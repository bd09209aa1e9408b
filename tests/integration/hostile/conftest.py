"""One Outlast with callers that are strangers to each other, and a model that repeats what it is told."""

import json
from collections.abc import Iterator

import pytest

from tests.support.hostile.party import Party, parties
from tests.support.hostile.pulse import Pulse, beating
from tests.support.paths import TEST_ACTORS
from tests.support.providers.script import Asked, Reply, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

KEYS = {"ann": "ann-key-0123456789ab", "bob": "bob-key-0123456789ab"}
MALLORY = "mallory-key-0123456789ab"
POLICY = "".join(
    f'[callers."key:{name}".limits]\nrequests_per_second = 10_000\nrequest_burst = 100_000\n' for name in KEYS
)
"""Ann and Bob stand for many callers here, so they may ask more often than one."""

provider = provider_fixture()
service = service_fixture(
    settings_from="model_settings",
    tools=["tests.support.tools.life_tools"],
    callers={**KEYS, "mallory": MALLORY},
    actors=TEST_ACTORS,
)


@pytest.fixture(scope="session")
def model_settings(provider: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    provider.script = repeating
    policy = tmp_path_factory.mktemp("policy") / "policy.toml"
    policy.write_text(POLICY)
    return {
        "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
        "OUTLAST_MAX_WAIT_SECONDS": "1",
        "OUTLAST_SCHEMA_CHECK_SECONDS": "2",
        "OUTLAST_POLICY_FILE": str(policy),
        **provider.environment,
    }


def repeating(asked: Asked) -> Reply:
    """The model says what was said to it: whoever is shown another's conversation finds it in the answer."""
    return says(json.dumps(asked.body.get("messages", ""))[-1_000:])


@pytest.fixture(scope="package")
def pulse(service: Service) -> Iterator[Pulse]:
    with beating(service.api_url, service.api.process.pid) as pulse:
        yield pulse


@pytest.fixture
def everybody(service: Service, pulse: Pulse) -> Iterator[list[Party]]:
    """Ann and Bob. After the test, the API has at no time stood still."""
    with parties(service.api_url, pulse, KEYS) as everybody:
        yield everybody
    pulse.check()
