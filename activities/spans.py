"""Spans of requests to the outside world. Without a collector a span costs a microsecond and goes nowhere
(`worker/otlp`). Names and attributes follow OpenTelemetry's semantic conventions. Spans never contain the content of
requests or answers.
"""

from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode

_API_PATH = "/v2/"
_FAILED_FROM = 400


@contextmanager
def platform_request(method: str, url: str) -> Generator[Span]:
    """Provide one request to the Apify platform. Ids and keys in its path are left out, so is its query."""
    parts = urlsplit(url)
    template = _template_of(parts.path)
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        "url.scheme": parts.scheme,
        "url.template": template,
    }
    with client_span(f"{method} {template}", attributes) as span:
        yield span


def answered_with(span: Span, status: int) -> None:
    """Record the status of the answer to a request."""
    span.set_attribute("http.response.status_code", status)
    if status >= _FAILED_FROM:
        span.set_attribute("error.type", str(status))
        span.set_status(StatusCode.ERROR)


@contextmanager
def client_span(name: str, attributes: dict[str, str | int]) -> Generator[Span]:
    """Provide a span of kind `client`. Records the type of an error, and not its message."""
    with trace.get_tracer("outlast.activities").start_as_current_span(
        name, kind=SpanKind.CLIENT, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise


def _template_of(path: str) -> str:
    """`/v2/actors/{id}/runs`: in the platform's paths names and ids take turns."""
    segments = path.partition(_API_PATH)[2].split("/")
    shown = (segment if number % 2 == 0 else "{id}" for number, segment in enumerate(segments))
    return _API_PATH + "/".join(shown)
