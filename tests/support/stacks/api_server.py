"""The REST API inside the test's own process, on a real socket, for settings that differ from the shared service's."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import uvicorn
from pydantic import SecretStr
from temporalio.client import Client

from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.api.app import build_app
from outlast.api.http.connections import limited_protocol
from outlast.api.services import build_services
from outlast.api.settings import ApiSettings
from outlast.worker.plugin import OutlastPlugin
from tests.support.http.api_client import api_client
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import SEAL_KEYS


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the test run's own signal handlers alone."""
        yield


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
    client: Client, settings: ApiSettings, *, whole: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API on a free port until the end of the block; gives an HTTP client for it.

    With `whole`, it also serves MCP and watches its policy file.
    """
    # With its protocol named, asyncio switches off what holds small answers back for 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        build_app(build_services(settings, client)),
        http=limited_protocol(
            request_seconds=settings.request_seconds, connections_per_address=settings.connections_per_address
        ),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on" if whole else "off",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with api_client(url) as http:
            yield http
    finally:
        server.should_exit = True
        await serving
        listener.close()
