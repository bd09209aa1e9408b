"""Turns the errors of the providers' client libraries into `ProviderError`."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import cast

import anthropic
import httpx2
import openai

from outlast.activities.failures.provider_error import CONNECTION, TIMEOUT, ProviderError, retry_after_of


@contextmanager
def provider_failures(provider_id: str, key: str) -> Generator[None]:
    """Turn the libraries' errors into `ProviderError`; other errors pass unchanged.

    `key` is removed from the message: a provider or a proxy may repeat it.
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
    """The error for a stream that ended before the answer was complete."""
    return ProviderError(provider_id, "the stream ended before the answer was complete", kinds=(CONNECTION,))


def _cause(error: Exception) -> str:
    cause = error.__cause__
    message = f"{error}".strip() or type(error).__name__
    request = getattr(error, "request", None)
    where = f" at {request.url.copy_with(query=None)}" if isinstance(request, httpx2.Request) else ""
    return f"{message}{where} ({type(cause).__name__}: {cause})" if cause else f"{message}{where}"


def _error_of_response(provider_id: str, error: openai.APIError | anthropic.APIError) -> ProviderError:
    details = _error_object(error.body)
    kinds = tuple(value for value in (details.get("code"), details.get("type")) if isinstance(value, str))
    message = details.get("message")
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    headers = response.headers if isinstance(response, httpx2.Response) else httpx2.Headers()
    return ProviderError(
        provider_id,
        message if isinstance(message, str) else error.message,
        kinds=kinds,
        # An error in the middle of a stream has the status of the response, 200.
        status=status if isinstance(status, int) and status >= 400 else None,
        retry_after=retry_after_of(headers.get("retry-after"), headers.get("retry-after-ms"), datetime.now(UTC)),
    )


def _error_object(body: object) -> dict[str, object]:
    """The error object of a response; Anthropic's is one level deeper."""
    if not isinstance(body, dict):
        return {}
    outer = cast(dict[str, object], body)
    inner = outer.get("error")
    return cast(dict[str, object], inner) if isinstance(inner, dict) else outer
