"""`python -P -m outlast.worker`: serve tool calls until SIGTERM or Ctrl-C."""

import asyncio
import gc
import logging
import os
import signal
import sys

from outlast.activities.secrets.sealer import SealError
from outlast.worker.connection import connect
from outlast.worker.logs import configure_logging
from outlast.worker.open_files import allow_many_connections
from outlast.worker.schedules import ensure_sweep_schedule
from outlast.worker.search_attributes import register_search_attributes
from outlast.worker.service import serving
from outlast.worker.settings import WorkerSettings
from outlast.worker.telemetry import build_runtime
from outlast.workflows.tools.extensions import load_extensions

log = logging.getLogger("outlast.worker")


async def serve(settings: WorkerSettings) -> None:
    """Connect, register, poll; return after a signal, when what was under way has finished."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = build_runtime(f"{settings.worker_metrics_host}:{settings.worker_metrics_port}")
    client = await connect(settings, runtime)
    await register_search_attributes(client)
    await ensure_sweep_schedule(client, interval_seconds=settings.sweep_interval_seconds)
    async with serving(client, settings):
        log.info("Worker serves namespace %s at %s", client.namespace, client.service_client.config.target_host)
        await stop.wait()
        log.info("Worker stops: what is under way may finish")


def main() -> int:
    """Exit code 0 after a clean stop, 1 when the worker could not start."""
    settings = WorkerSettings()
    configure_logging(settings.log_format, settings.log_level)
    allow_many_connections()
    try:
        load_extensions(settings.tool_modules)
        gc.freeze()  # what is imported stays: no collection needs to look through it again
        asyncio.run(serve(settings))
    except (SealError, ValueError, RuntimeError) as error:
        log.error("Worker cannot start: %s", error)  # noqa: TRY400  # the message is for the operator, a trace is not
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The SDK's runtime threads may abort at interpreter exit (a known race), after everything has been flushed.
    os._exit(code)
