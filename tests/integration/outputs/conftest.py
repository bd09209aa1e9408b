"""The output store on a disk and on a real S3 server, and its activities against the sandbox platform."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from apify_client import ApifyClient
from pydantic import SecretStr

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from tests.support.stacks.s3 import S3Server, running_s3
from tests.support.stacks.sandbox import Sandbox, running_sandbox


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["disk", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> OutputObjects:
    """An empty store."""
    if request.param == "disk":
        return OutputObjects.open(str(tmp_path / "outputs"))
    server: S3Server = request.getfixturevalue("s3_server")
    return OutputObjects.open(server.url(f"tests/{secrets.token_hex(8)}"), **server.options)


@pytest.fixture(scope="session")
def outputs_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("outputs-sandbox")) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(outputs_sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox platform, without faults afterwards."""
    yield outputs_sandbox
    outputs_sandbox.clear_faults()


@pytest.fixture
def platform(sandbox: Sandbox) -> ApifyClient:
    """The sandbox as the operator's account sees it, for making what is then stored."""
    return ApifyClient(sandbox.token, api_url=sandbox.url)


@pytest.fixture
def activities(sandbox: Sandbox, objects: OutputObjects) -> OutputActivities:
    platform = ApifyPlatform(
        api_base_url=sandbox.url, operator_token=SecretStr(sandbox.token), sealer=SecretSealer({"k": bytes(32)})
    )
    return OutputActivities(platform, objects)
