"""An Outlast with several callers, its console, and Chromium."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser
from temporalio.client import Client

from tests.integration.console.people import People, make_policy
from tests.integration.widgets.host import running_chromium
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.fixtures import sandbox_fixture, service_fixture, temporal_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

service = service_fixture(tools=["tests.support.tools.unknown_outcomes"])
sandbox = sandbox_fixture()
temporal = temporal_fixture()


@pytest.fixture
async def people(service: Service, sandbox: Sandbox, temporal: Client, tmp_path: Path) -> AsyncIterator[People]:
    """The callers of an API of its own, with a policy file that the test may change."""
    policy, tokens = make_policy(tmp_path / "policy.toml")
    settings = api_settings(
        sandbox,
        policy_file=policy,
        store_url=str(service.outputs),
        audit_file=tmp_path / "audit.jsonl",
        data_dir=tmp_path,
    )
    async with serving_api(temporal, settings, whole=True) as api:
        yield People(str(api.base_url).rstrip("/"), policy, tokens, tmp_path / "audit.jsonl")


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    async with running_chromium() as browser:
        yield browser
