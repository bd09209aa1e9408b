"""Fixtures that many folders need: a service, its platform and its clients. A `conftest.py` says what differs.

    service = service_fixture(tools=["tests.support.tools.protocol_tools"], callers={"ann": ANN})
    api = http_fixture(ANN)

The clients are those of the fixture `service`, whichever stands nearest to the test.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Literal, Unpack

import httpx
import pytest
from temporalio.client import Client

from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import OutlastOptions, Service, running_outlast


@dataclass(frozen=True)
class ModelStack:
    """The scripted provider, and the service that calls it."""

    provider: ProviderServer
    service: Service


def service_fixture(
    *,
    scope: Literal["package", "module"] = "package",
    sandbox_from: str | None = None,
    settings_from: str | None = None,
    **options: Unpack[OutlastOptions],
):
    """The fixture of an Outlast. It ends with the last test of its folder, so that no idle one takes processor time.

    `sandbox_from` names a fixture with its platform, `settings_from` one with further environment variables.
    """

    @pytest.fixture(scope=scope)
    def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
        if sandbox_from:
            options["sandbox"] = request.getfixturevalue(sandbox_from)
        if settings_from:
            options["settings"] = {**options.get("settings", {}), **request.getfixturevalue(settings_from)}
        with running_outlast(tmp_path_factory.mktemp("outlast"), **options) as running:
            yield running

    return service


def http_fixture(token: str | None = None, *, timeout_seconds: float = 120):
    """The fixture of an HTTP client of `service`: of the caller with this token, or of one without any."""

    @pytest.fixture
    async def http(service: Service) -> AsyncIterator[httpx.AsyncClient]:
        async with service.http(token, timeout_seconds=timeout_seconds) as client:
            yield client

    return http


def temporal_fixture():
    """The fixture of a Temporal client for the namespace of `service`."""

    @pytest.fixture
    async def temporal(service: Service) -> Client:
        return await connect(service.temporal_address, namespace=service.namespace)

    return temporal


def sandbox_fixture():
    """The fixture of the platform of `service`; after the test it has no faults, and its limits are as before."""

    @pytest.fixture
    def sandbox(service: Service) -> Iterator[Sandbox]:
        yield service.sandbox
        service.sandbox.restore()

    return sandbox
