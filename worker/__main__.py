"""`python -P -m outlast.worker`: carry tool calls out until SIGTERM or Ctrl-C."""

from outlast.extras import require

require("server")

import asyncio
import logging
import os
import signal
import sys
from functools import partial

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.activities import apify
from outlast.activities.failures.exceptions import SealError
from outlast.worker.bootstrap import settings_of_process
from outlast.worker.connection import StoreOwnership, connect, temporal_certificate_end, worker_identity
from outlast.worker.failover import taking_over
from outlast.worker.logs import hide_secrets_of_tools
from outlast.worker.otlp.metrics import sending_metrics, series_at
from outlast.worker.otlp.traces import start_tracing
from outlast.worker.plain_functions import report_missing_secrets
from outlast.worker.ready_file import ready_file
from outlast.worker.search_attributes import register_search_attributes
from outlast.worker.service import serving
from outlast.worker.settings import WorkerSettings
from outlast.worker.stuck_tasks import ending_stuck_tasks
from outlast.worker.sweep_schedule import ensure_sweep_schedule
from outlast.worker.telemetry import export_certificate_end, start_telemetry
from outlast.workflows.tools.extensions import load_extensions

log = logging.getLogger("outlast.worker")


async def serve(settings: WorkerSettings) -> None:
    """Connect, register, poll. Returns after a signal, when running work has finished."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    telemetry = start_telemetry(settings.worker_metrics_host, settings.worker_metrics_port)
    report_missing_secrets(telemetry.runtime.metric_meter)
    client = await connect(settings, telemetry.runtime, identity=worker_identity())
    export_certificate_end(telemetry.runtime, temporal_certificate_end())
    await register_search_attributes(client)
    await StoreOwnership.of(client, settings).claim()
    await ensure_sweep_schedule(client, interval_seconds=settings.sweep_interval_seconds)
    async with (
        sending_metrics(settings, "worker", partial(series_at, telemetry.metrics_url)),
        serving(client, settings),
        ending_stuck_tasks(client, settings.stuck_limits, telemetry.runtime),
        taking_over(client, settings.data_dir / "workers"),
    ):
        with ready_file(settings.ready_file, metrics_url=telemetry.metrics_url):
            await asyncio.to_thread(apify.load)
            await _until_stopped(client, stop)


async def _until_stopped(client: Client, stop: asyncio.Event) -> None:
    target = client.service_client.config.target_host
    log.info("Worker polls namespace %s at %s", client.namespace, target)
    await stop.wait()
    log.info("Worker stops: it finishes running work")


def main() -> int:
    """Exit code 0 after a clean stop, 1 when the worker could not start."""
    settings = settings_of_process(WorkerSettings, log)
    if settings is None:
        return 1
    stop_tracing = start_tracing(settings, "worker")
    try:
        hide_secrets_of_tools()
        load_extensions(settings.tool_modules)
        asyncio.run(serve(settings))
    except (SealError, ValueError, OSError, RuntimeError, RPCError) as error:
        log.error("Worker cannot start: %s", error)  # noqa: TRY400  # operators need the message, not a traceback
        return 1
    finally:
        stop_tracing()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The SDK's runtime threads may abort at interpreter exit (a known race), after everything has been flushed.
    os._exit(code)
