"""The failures of the providers' libraries as `ProviderError`."""

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
    """Turn what the libraries raise in the block into `ProviderError`; everything else passes.

    A provider or a proxy may repeat the `key` in what it says: it is left out.
    """
    try:
        with _told_by_the_libraries(provider_id):
            yield
    except ProviderError as error:
        if key and key in error.message:
            error.message = error.message.replace(key, "[redacted]")
            error.args = (error.message,)
        raise


@contextmanager
def _told_by_the_libraries(provider_id: str) -> Generator[None]:
    try:
        yield
    except (openai.APITimeoutError, anthropic.APITimeoutError, httpx2.TimeoutException) as error:
        raise ProviderError(provider_id, _cause(error), kinds=(TIMEOUT,)) from None
    except (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.HTTPError) as error:
        raise ProviderError(provider_id, _cause(error), kinds=(CONNECTION,)) from None
    except json.JSONDecodeError as error:
        raise ProviderError(provider_id, f"an event was cut off ({error})", kinds=(CONNECTION,)) from None
    except (openai.APIError, anthropic.APIError) as error:
        raise _refusal(provider_id, error) from None


def broken_off(provider_id: str) -> ProviderError:
    """For a stream that ended before the model did."""
    return ProviderError(provider_id, "the stream ended before the answer did", kinds=(CONNECTION,))


def _cause(error: Exception) -> str:
    cause = error.__cause__
    told = f"{error}".strip() or type(error).__name__
    request = getattr(error, "request", None)
    where = f" at {request.url.copy_with(query=None)}" if isinstance(request, httpx2.Request) else ""
    return f"{told}{where} ({type(cause).__name__}: {cause})" if cause else f"{told}{where}"


def _refusal(provider_id: str, error: openai.APIError | anthropic.APIError) -> ProviderError:
    told = _error_object(error.body)
    kinds = tuple(value for value in (told.get("code"), told.get("type")) if isinstance(value, str))
    message = told.get("message")
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    headers = response.headers if isinstance(response, httpx2.Response) else httpx2.Headers()
    return ProviderError(
        provider_id,
        message if isinstance(message, str) else error.message,
        kinds=kinds,
        # An error in the middle of a stream comes with the status of its beginning.
        status=status if isinstance(status, int) and status >= 400 else None,
        retry_after=retry_after_of(headers.get("retry-after"), headers.get("retry-after-ms"), datetime.now(UTC)),
    )


def _error_object(body: object) -> dict[str, object]:
    """The error's own object: of an answer of Anthropic it lies one level deeper."""
    if not isinstance(body, dict):
        return {}
    told = cast(dict[str, object], body)
    inner = told.get("error")
    return cast(dict[str, object], inner) if isinstance(inner, dict) else told
