"""Contents of a span: names, sizes, durations and ids; never arguments, outputs, secrets or texts of errors.

The libraries that make spans (FastAPI, the MCP SDK, tools of others) put queries, messages of exceptions and stack
traces into them. So every span passes here before it is sent, and loses what is not on the list.
"""

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

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
        """Send nothing any more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Whether everything was sent."""
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
