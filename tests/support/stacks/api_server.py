"""The REST API inside the test's own process, on a real socket, for settings that differ from the shared service's."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from pydantic import SecretStr
from temporalio.client import Client

from outlast.activities.object_store.objects import OutputObjects
from outlast.api.app import build_app
from outlast.api.http.client_connections import limited_protocol
from outlast.api.services import build_services
from outlast.api.settings import ApiSettings
from outlast.worker.plugin import OutlastPlugin
from tests.support.http.api_client import api_client
from tests.support.http.in_process import listening, serving
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import SEAL_KEYS


def api_settings(sandbox: Sandbox, **settings: Any) -> ApiSettings:
    """Settings that fit the shared service, but for `settings`."""
    given = {
        "apify_api_base_url": sandbox.url,
        "apify_token": SecretStr(sandbox.token),
        "seal_keys": SecretStr(SEAL_KEYS),
        "default_actors": "outlast/sleeper",
        # Tests name models as they like.
        "model_limits": {"openai/*": {}, "anthropic/*": {}, "zai/*": {}},
    }
    return ApiSettings.model_validate({**given, **settings})


async def connect(
    address: str, *, namespace: str = "default", lazy: bool = False, objects: OutputObjects | None = None
) -> Client:
    """A Temporal client as every Outlast process has it; it reads large payloads when given their store."""
    return await Client.connect(address, namespace=namespace, plugins=[OutlastPlugin(objects)], lazy=lazy)


@asynccontextmanager
async def serving_api(
    client: Client, settings: ApiSettings, *, whole: bool = False, listener: socket.socket | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API until the end of the block, on a free port or on `listener`; gives an HTTP client for it.

    With `whole`, it also serves MCP and watches its policy file.
    """
    if listener is None:
        listener, _ = listening()
    protocol = limited_protocol(
        request_seconds=settings.request_seconds,
        connections_per_address=settings.connections_per_address,
        unread_seconds=settings.unread_seconds,
    )
    app = build_app(build_services(settings, client))
    async with (
        serving(app, listener, http=protocol, lifespan="on" if whole else "off"),
        api_client(f"http://127.0.0.1:{listener.getsockname()[1]}") as http,
    ):
        yield http
