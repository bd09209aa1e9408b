"""`python -P -m outlast.api`: serve the entry points until SIGTERM or Ctrl-C."""

from outlast.extras import require

require("server")

import asyncio
import logging
import os
import sys

import uvicorn
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.activities.failures.exceptions import SealError
from outlast.api.access.permissions import PermissionRules, idle_roles, idle_rules
from outlast.api.app import build_app
from outlast.api.errors import TemporalUnavailable
from outlast.api.http.client_connections import KEEP_ALIVE_SECONDS, limited_protocol
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems
from outlast.api.temporal.errors import temporal_errors
from outlast.worker.bootstrap import settings_of_process
from outlast.worker.connection import StoreOwnership, connect
from outlast.worker.otlp.traces import start_tracing
from outlast.worker.ready_file import ready_file
from outlast.worker.search_attributes import register_search_attributes
from outlast.worker.telemetry import build_runtime
from outlast.workflows.tools.extensions import ExtensionError, load_extensions
from outlast.workflows.tools.registry import offer_on_demand

log = logging.getLogger("outlast.api")

_SHUTDOWN_SECONDS = 5
_PREPARE_SECONDS = 3


async def serve(settings: ApiSettings) -> None:
    """Serve until a signal. Starts also while Temporal is down, and answers 503 until it is back."""
    client = await connect(settings, build_runtime(), lazy=True)
    services = Services(settings, client)
    await StoreOwnership.of(client, settings).check()
    services.audit.open()
    policy = services.policy.current
    for line in (*idle_rules(PermissionRules.of(policy)), *idle_roles(policy)):
        log.warning("A permission matches no tool: %s", line)
    for line in services.policy.weak_points:
        log.warning("The policy file: %s", line)
    if policy.anonymous not in (None, "none") and not settings.is_loopback:
        log.warning('anonymous = "%s" in the policy file has no effect beyond loopback.', policy.anonymous)
    app = build_app(services)
    config = uvicorn.Config(
        app,
        http=limited_protocol(
            request_seconds=settings.request_seconds,
            connections_per_address=settings.connections_per_address,
            unread_seconds=settings.unread_seconds,
        ),
        ws="none",
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        server_header=False,
        # OUTLAST_TRUSTED_PROXIES decides. By default, uvicorn trusts every process of the machine.
        proxy_headers=False,
    )
    if "FORWARDED_ALLOW_IPS" in os.environ:
        log.warning("FORWARDED_ALLOW_IPS has no effect: name trusted proxies in OUTLAST_TRUSTED_PROXIES.")
    await _prepare_namespace(client)
    log.info("API listens on http://%s:%s", settings.api_host, settings.api_port)
    await _Server(config, settings).serve()


class _Server(uvicorn.Server):
    """Announces in the ready file that it listens."""

    def __init__(self, config: uvicorn.Config, settings: ApiSettings) -> None:
        super().__init__(config)
        url = f"http://{settings.api_host}:{settings.api_port}"
        self._announcement = ready_file(settings.ready_file, url=url, metrics_url=f"{url}/metrics")

    async def main_loop(self) -> None:
        with self._announcement:
            await super().main_loop()


async def _prepare_namespace(client: Client) -> None:
    """Register the search attributes, as the first call may precede the first worker. Without Temporal, a worker does
    it.
    """
    try:
        async with asyncio.timeout(_PREPARE_SECONDS):
            with temporal_errors():
                await register_search_attributes(client)
    except (RPCError, TemporalUnavailable, TimeoutError) as error:
        log.info("Search attributes are left to the worker: %s", error)


def main() -> int:
    """Exit code 0 after a clean stop, 1 when the API could not start."""
    settings = settings_of_process(ApiSettings, log)
    if settings is None:
        return 1
    stop_tracing = start_tracing(settings, "api")
    try:
        load_extensions(settings.tool_modules)
        offer_on_demand(settings.configured_tools)
        problems = settings_problems(settings)
        for problem in problems:
            log.error("%s", problem)
        if problems:
            return 1
        asyncio.run(serve(settings))
    except (ExtensionError, SealError, ValueError, RuntimeError) as error:
        log.error("API cannot start: %s", error)  # noqa: TRY400  # the message is for the operator, a trace is not
        return 1
    finally:
        stop_tracing()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The SDK's runtime threads may abort at interpreter exit (a known race), after everything has been flushed.
    os._exit(code)
