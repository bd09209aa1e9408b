"""Spans of what activities ask the outside world: requests to the platform, calls of models.

Without a collector they cost a microsecond and go nowhere (`worker/otlp`). Names and attributes follow
OpenTelemetry's semantic conventions for HTTP clients and for generative AI. They never hold the content of requests or
answers.
"""

from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from outlast.activities.llm.contracts import CallModelInput, ModelStep

_API_PATH = "/v2/"
_FAILED_FROM = 400


@contextmanager
def platform_request(method: str, url: str) -> Generator[Span]:
    """One request to the Apify platform. Ids and keys in its path are left out, so is its query."""
    parts = urlsplit(url)
    template = _template_of(parts.path)
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        "url.scheme": parts.scheme,
        "url.template": template,
    }
    with _client_span(f"{method} {template}", attributes) as span:
        yield span


def answered_with(span: Span, status: int) -> None:
    """Record the status of the answer to a request."""
    span.set_attribute("http.response.status_code", status)
    if status >= _FAILED_FROM:
        span.set_attribute("error.type", str(status))
        span.set_status(StatusCode.ERROR)


@contextmanager
def model_call(request: CallModelInput) -> Generator[Span]:
    """One call of a model, with all of its answer."""
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": request.provider_id,
        "gen_ai.request.model": request.model_id,
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "gen_ai.conversation.id": request.session_id,
        "outlast.step": request.step,
    }
    with _client_span(f"chat {request.model_id}", attributes) as span:
        yield span


def model_answered(span: Span, step: ModelStep) -> None:
    """Record why a model stopped, and its tokens; those of the input include cached ones."""
    usage = step.usage
    span.set_attributes(
        {
            "gen_ai.response.finish_reasons": [step.finish_reason],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        }
    )


@contextmanager
def _client_span(name: str, attributes: dict[str, str | int]) -> Generator[Span]:
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
