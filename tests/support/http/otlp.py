"""An OpenTelemetry collector for tests: it takes OTLP over HTTP on a real socket, and keeps what it got."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.eventually import eventually


@dataclass(frozen=True)
class SeenSpan:
    """A span as it came in."""

    process: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    is_error: bool
    raw: bytes


@dataclass
class Collector:
    """What has come in, the headers of the requests too."""

    url: str
    spans: list[SeenSpan] = field(default_factory=list[SeenSpan])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    """The latest value of each, by its name."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def take(self, path: str, body: bytes) -> None:
        """Keep the spans or metrics of one request."""
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for resource in traces.resource_spans:
                process = _plain(resource.resource.attributes)["service.name"]
                self.spans += [_seen(process, span) for scope in resource.scope_spans for span in scope.spans]
        else:
            found = ExportMetricsServiceRequest.FromString(body)
            for resource in found.resource_metrics:
                for scope in resource.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in scope.metrics}

    def total(self, name: str, **labels: str) -> float:
        """The sum of a counter's series with these labels; 0 while there is none."""
        points = self.metrics[name].sum.data_points if name in self.metrics else ()
        return sum(point.as_double for point in points if labels_of(point).items() >= labels.items())

    def of_trace(self, trace: str) -> list[SeenSpan]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace == trace]

    async def whole_trace(self, trace: str, *names: str, root: str) -> "Tree":
        """The trace, as soon as spans with all these names have come in, and every parent but `root`."""

        def whole() -> Tree | None:
            spans = self.of_trace(trace)
            known = {span.id for span in spans} | {root}
            missing = set(names) - {span.name for span in spans}
            return None if missing or any(span.parent not in known for span in spans) else Tree(spans)

        try:
            return await eventually(whole)
        except AssertionError:
            raise AssertionError([(s.process, s.name, s.id, s.parent) for s in self.of_trace(trace)]) from None


@dataclass(frozen=True)
class Tree:
    """The spans of one trace, with all their parents."""

    spans: Sequence[SeenSpan]

    def one(self, name: str) -> SeenSpan:
        """The only span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def path(self, name: str) -> list[str]:
        """The names from the root to the only span of this name."""
        by_id = {span.id: span for span in self.spans}
        span: SeenSpan | None = self.one(name)
        names: list[str] = []
        while span is not None:
            names.insert(0, span.name)
            span = by_id.get(span.parent)
        return names


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def labels_of(point: Any) -> dict[str, Any]:
    """The labels of one series."""
    return _plain(point.attributes)


def _seen(process: str, span: Span) -> SeenSpan:
    return SeenSpan(
        process,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _plain(span.attributes),
        span.status.code == 2,
        span.SerializeToString(),
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
