"""The call that all providers share: send the request, read the stream, close the connection, and turn the errors of
the client libraries into `ProviderError`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar, cast

import anthropic
import httpx2
import openai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.exceptions import CONNECTION, TIMEOUT, ProviderError, retry_after_of
from outlast.activities.llm.contracts import CallModelInput, ModelStep
from outlast.activities.llm.providers.answers import Listener, StreamEvents
from outlast.activities.llm.providers.requests import ToolPlan
from outlast.activities.unicode_text import valid_text

_MAX_ERROR_CHARS = 500
_FIRST_ERROR, _LAST_ERROR = 400, 599
_REFUSED = frozenset({"invalid_request_error", "BadRequestError"})
"""Kinds of errors that stay, when an error in the middle of a stream has no other sign of that."""


@contextmanager
def provider_failures(provider_id: str, key: str) -> Generator[None]:
    """Turn the libraries' errors into `ProviderError`; other errors pass unchanged. `key` is removed from the message:
    a provider or a proxy may repeat it.
    """
    try:
        with _library_failures(provider_id):
            yield
    except ProviderError as error:
        if key and key in error.message:
            error.message = error.message.replace(key, "[redacted]")
            error.args = (error.message,)
        raise


@contextmanager
def _library_failures(provider_id: str) -> Generator[None]:
    try:
        yield
    except (openai.APITimeoutError, anthropic.APITimeoutError, httpx2.TimeoutException) as error:
        raise ProviderError(provider_id, _cause(error), kinds=(TIMEOUT,)) from None
    except (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.HTTPError) as error:
        raise ProviderError(provider_id, _cause(error), kinds=(CONNECTION,)) from None
    except json.JSONDecodeError as error:
        raise ProviderError(provider_id, f"an event was cut off ({error})", kinds=(CONNECTION,)) from None
    except (openai.APIError, anthropic.APIError) as error:
        raise _error_of_response(provider_id, error) from None


def stream_ended_early(provider_id: str) -> ProviderError:
    """Return the error for a stream that ended before the answer was complete."""
    return ProviderError(provider_id, "the stream ended before the answer was complete", kinds=(CONNECTION,))


def error_in(event: JsonObject) -> JsonValue:
    """The error that an event of a stream reports; None for an event without one. Servers that speak nearly as OpenAI
    does put it in `error`, as an object or a text, or make the event itself one.
    """
    if error := event.get("error"):
        return error
    is_error = event.get("object") == "error" or event.get("type") == "error"
    if is_error or ("choices" not in event and "type" not in event and ("message" in event or "detail" in event)):
        return event
    return None


def reported_error(provider_id: str, error: JsonValue) -> ProviderError:
    """Return the failure for an error that a provider reports within a stream, whose status is 200."""
    details: Mapping[str, object] = error if isinstance(error, dict) else {}
    texts = (details.get(key) for key in ("message", "detail"))
    message = next((text for text in texts if isinstance(text, str)), None)
    if message is None:
        message = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)[:_MAX_ERROR_CHARS]
    return ProviderError(provider_id, valid_text(message), kinds=_kinds(details), status=_status(details))


def _kinds(details: Mapping[str, object]) -> tuple[str, ...]:
    named = (details.get("code"), details.get("type"))
    return tuple(value for value in named if isinstance(value, str) and value != "error")


def _status(details: Mapping[str, object]) -> int | None:
    """Return the HTTP status that an error names, as vLLM and OpenRouter put it; None when it names none."""
    for key in ("code", "status", "status_code"):
        value = details.get(key)
        if isinstance(value, int) and _FIRST_ERROR <= value <= _LAST_ERROR:
            return value
    return _FIRST_ERROR if _REFUSED.intersection(_kinds(details)) else None


def _cause(error: Exception) -> str:
    cause = error.__cause__
    message = f"{error}".strip() or type(error).__name__
    request = getattr(error, "request", None)
    where = f" at {request.url.copy_with(query=None)}" if isinstance(request, httpx2.Request) else ""
    return f"{message}{where} ({type(cause).__name__}: {cause})" if cause else f"{message}{where}"


def _error_of_response(provider_id: str, error: openai.APIError | anthropic.APIError) -> ProviderError:
    details = _error_object(error.body)
    message = details.get("message")
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    headers = response.headers if isinstance(response, httpx2.Response) else httpx2.Headers()
    return ProviderError(
        provider_id,
        valid_text(message if isinstance(message, str) else error.message),
        kinds=_kinds(details),
        # An error in the middle of a stream has the status of the response, 200.
        status=status if isinstance(status, int) and status >= _FIRST_ERROR else None,
        retry_after=retry_after_of(headers.get("retry-after"), headers.get("retry-after-ms"), datetime.now(UTC)),
    )


def _error_object(body: object) -> dict[str, object]:
    """Return the error object of a response; Anthropic's is one level deeper."""
    if not isinstance(body, dict):
        return {}
    outer = cast(dict[str, object], body)
    inner = outer.get("error")
    return cast(dict[str, object], inner) if isinstance(inner, dict) else outer


class Answer(Protocol):
    """An answer received so far. Its pieces are passed to a listener as they come."""

    error: JsonValue
    """An error that the answer reports."""

    @property
    def is_whole(self) -> bool:
        """True once the answer is complete: later failures do not count, and only token counts may follow."""
        ...

    def add(self, event: JsonObject) -> bool:
        """Add an event of the stream. Returns True if it was the last."""
        ...

    def end(self, *, is_done: bool) -> bool:
        """Handle the end of the stream, which is marked if `is_done`. Returns True if nothing is missing."""
        ...


AnswerT = TypeVar("AnswerT", bound=Answer)


class StreamedProvider(ABC, Generic[AnswerT]):
    """A `Provider` with the client of an SDK. The client's own retries are off: Temporal retries."""

    path: str

    def __init__(self, provider_id: str, client: AsyncOpenAI | AsyncAnthropic) -> None:
        self.id = provider_id
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """See `Provider`."""
        body, plan = self.request(request)
        answer = self.answer(request, listener)
        with provider_failures(self.id, self._client.api_key or ""):
            await self._read(body, answer)
        return self.step(request, answer, plan)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    @abstractmethod
    def request(self, request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
        """Return the body of the request."""

    @abstractmethod
    def answer(self, request: CallModelInput, listener: Listener) -> AnswerT:
        """Return an empty answer."""

    @abstractmethod
    def step(self, request: CallModelInput, answer: AnswerT, plan: ToolPlan) -> ModelStep:
        """Return the complete answer. Raises `ProviderError` if it reports a failure."""

    async def _read(self, body: JsonObject, answer: AnswerT) -> None:
        async with StreamEvents(await self._response(body)) as events:
            async for event in events:
                was_whole = answer.is_whole
                is_last = answer.add(event)
                error = error_in(event) or answer.error
                if error is not None and not was_whole:
                    raise reported_error(self.id, error)
                if is_last:
                    break
                if answer.is_whole:
                    events.settle()
        if not answer.end(is_done=events.is_done):
            raise stream_ended_early(self.id)

    async def _response(self, body: JsonObject) -> httpx2.Response:
        """Send the request. The SDK's own reader is not used: it fails on what many servers send."""
        if isinstance(self._client, AsyncAnthropic):
            return await self._client.post(self.path, body=body, cast_to=httpx2.Response, stream=True)
        return await self._client.post(
            self.path,
            body=body,
            cast_to=httpx2.Response,
            stream=True,
            options={"security": {"bearer_auth": True}},
        )
