"""Where the spans of a process go: to an OpenTelemetry collector, by OTLP over HTTP. Nowhere while none is set."""

import logging
import threading
from collections.abc import Callable

from outlast.worker.otlp.collector import Process, headers_of, resource_of, signal_url
from outlast.worker.settings import Settings

_STOP_SECONDS = 3.0

log = logging.getLogger("outlast")


def start_tracing(settings: Settings, process: Process) -> Callable[[], None]:
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

    from outlast.worker.otlp.safe_spans import SafeSpans  # noqa: PLC0415

    exporter = OTLPSpanExporter(endpoint=signal_url(settings.otlp_endpoint, "traces"), headers=headers_of(settings))
    provider = create_tracer_provider(resource=Resource.create(dict(resource_of(process))), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(SafeSpans(exporter)))
    trace.set_tracer_provider(provider)
    # The trace alone: callers write anything into baggage, and it would be in histories.
    propagate.set_global_textmap(TraceContextTextMapPropagator())
    log.info("Traces are sent to %s", settings.otlp_endpoint)
    return lambda: _within(_STOP_SECONDS, provider.shutdown)


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Carry `work` out, and go on without it when it takes longer: a collector that is down must not hold an end."""
    thread = threading.Thread(target=work, name="last spans", daemon=True)
    thread.start()
    thread.join(seconds)


def _nothing() -> None:
    pass
