"""Where the spans of a process go: to an OpenTelemetry collector, by OTLP over HTTP. Nowhere while none is set."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Literal

from outlast.worker.settings import Settings

_STOP_SECONDS = 3.0

log = logging.getLogger("outlast")


def start_tracing(settings: Settings, process: Literal["api", "mcp", "worker"]) -> Callable[[], None]:
    """Send the spans of this process to the collector of `settings`. To be called once, before anything is traced.

    What it returns sends the last spans, for at most 3 seconds. Without a collector nothing is imported and nothing is
    traced. OpenTelemetry's own variables say how much is sampled (`OTEL_TRACES_SAMPLER`) and how often spans are sent
    (`OTEL_BSP_SCHEDULE_DELAY`).
    """
    if settings.otlp_endpoint is None:
        return _nothing
    # The SDK takes 0.1 seconds to load: only where there is a collector.
    from opentelemetry import propagate, trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    from temporalio.contrib.opentelemetry import create_tracer_provider  # noqa: PLC0415

    from outlast.worker.tracing.safe_spans import SafeSpans  # noqa: PLC0415

    exporter = OTLPSpanExporter(endpoint=signal_url(settings.otlp_endpoint, "traces"), headers=headers_of(settings))
    provider = create_tracer_provider(resource=Resource.create(resource_of(process)), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(SafeSpans(exporter)))
    trace.set_tracer_provider(provider)
    # The trace alone: baggage is whatever a caller writes, and would stand in histories.
    propagate.set_global_textmap(TraceContextTextMapPropagator())
    log.info("Traces are sent to %s", settings.otlp_endpoint)
    return lambda: _within(_STOP_SECONDS, provider.shutdown)


def signal_url(endpoint: str, signal: Literal["metrics", "traces"]) -> str:
    """Where the collector at `endpoint` takes a signal."""
    return f"{endpoint.rstrip('/')}/v1/{signal}"


def headers_of(settings: Settings) -> Mapping[str, str]:
    """The headers with which the collector is spoken to."""
    from opentelemetry.util.re import parse_env_headers  # noqa: PLC0415

    given = settings.otlp_headers.get_secret_value() if settings.otlp_headers else ""
    return parse_env_headers(given, liberal=True)


def resource_of(process: str) -> dict[str, str]:
    """Which process it is. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` add to it."""
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"outlast-{process}"}
    return {
        **named,
        "service.version": version("outlast"),
        "service.instance.id": f"{os.uname().nodename}-{os.getpid()}",
    }


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Carry `work` out, and go on without it when it takes longer: a collector that is down must not hold an end."""
    thread = threading.Thread(target=work, name="last spans", daemon=True)
    thread.start()
    thread.join(seconds)


def _nothing() -> None:
    pass
