"""Traces to an OpenTelemetry collector, by OTLP over HTTP, if one is set.

Libraries that make spans (FastAPI, the MCP SDK, tools of others) put queries, messages of exceptions and stack traces
into them. So every span is reduced to an allow list before it is sent: names, sizes, durations and ids; never
arguments, outputs, secrets or texts of errors.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

from outlast.worker.otlp.collector import Process, headers_of, resource_of, signal_url
from outlast.worker.settings import Settings

MAX_CHARS = 256
ALLOWED = frozenset(
    "error.type gen_ai.agent.name gen_ai.conversation.id gen_ai.operation.name gen_ai.prompt.name gen_ai.provider.name "
    "gen_ai.request.max_tokens gen_ai.request.model gen_ai.response.finish_reasons gen_ai.tool.call.id "
    "gen_ai.tool.name gen_ai.tool.type gen_ai.usage.cache_creation.input_tokens gen_ai.usage.cache_read.input_tokens "
    "gen_ai.usage.input_tokens gen_ai.usage.output_tokens http.request.method http.response.status_code http.route "
    "jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.protocol.version "
    "rpc.response.status_code server.address server.port url.scheme url.template".split()
)
"""By OpenTelemetry's semantic conventions for HTTP, generative AI and MCP. What begins with `outlast.` is ours."""


class SafeSpans(SpanExporter):
    """Sends spans with another exporter, without what is not allowed in them."""

    def __init__(self, exporter: SpanExporter) -> None:
        """Send with `exporter`."""
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send `spans`."""
        return self._exporter.export([_safe(span) for span in spans])

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True if everything was sent."""
        return self._exporter.force_flush(timeout_millis)


def _safe(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(
        name=_text(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=dict(_allowed(span.attributes or {})),
        links=[Link(link.context) for link in span.links],
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _allowed(attributes: Mapping[str, AttributeValue]) -> Iterator[tuple[str, AttributeValue]]:
    for name, value in attributes.items():
        if name in ALLOWED or name.startswith("outlast."):
            yield name, _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """`text` as a collector takes it: one that is not UTF-8 would cost all spans that are sent with it."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode()


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
