"""Every failure becomes one envelope: bounded, without credentials, and with the right word on whether to retry."""

import asyncio
import json
from datetime import timedelta
from typing import Any, cast

import httpx
import impit
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError, InvalidResponseBodyError
from apify_client.http_clients import HttpResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from temporalio.exceptions import CancelledError

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import (
    CAPACITY_RETRY_DELAY,
    MAX_MESSAGE_CHARS,
    RETRYABLE,
    ToolFailure,
    classify,
    failure,
    may_be_permanent,
    redact,
)
from outlast.activities.failures.exceptions import SealError

C = ErrorCategory
TOKEN = "apify_api_AbC123_def-456GHI789jkl"


class Answer:
    """What apify-client sees of an HTTP answer of the platform (`apify_client.http_clients.HttpResponse`)."""

    def __init__(self, status_code: int, body: bytes) -> None:
        self.status_code = status_code
        self.content = body
        self.text = body.decode()
        self.headers: dict[str, str] = {"content-type": "application/json"}

    def json(self) -> Any:
        return json.loads(self.content)


def api_error(status: int, error_type: str, message: str = "as it happens") -> ApifyApiError:
    body = json.dumps({"error": {"type": error_type, "message": message}}).encode()
    return ApifyApiError(cast(HttpResponse, Answer(status, body)), attempt=1, method="POST")


def validation_error() -> ValidationError:
    class Model(BaseModel):
        number: int

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"number": TOKEN})
    return caught.value


def platform_mismatch() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        apify.Run.model_validate({"id": TOKEN})
    return caught.value


PLATFORM_REFUSALS = [
    (400, "invalid-input", C.VALIDATION),
    (401, "user-or-token-not-found", C.AUTHENTICATION),
    (402, "actor-memory-limit-exceeded", C.CAPACITY),
    (400, "actor-memory-limit-exceeded", C.CAPACITY),
    (402, "concurrent-runs-limit-exceeded", C.CAPACITY),
    (402, "not-enough-usage-to-run-paid-actor", C.PAYMENT),
    (403, "insufficient-permissions", C.PERMISSION),
    (404, "record-not-found", C.NOT_FOUND),
    (408, "request-timeout", C.TIMEOUT),
    (409, "actor-task-name-not-unique", C.CONFLICT),
    (410, "run-deleted", C.NOT_FOUND),
    (412, "stale", C.CONFLICT),
    (413, "request-too-large", C.VALIDATION),
    (418, "teapot", C.UNKNOWN),
    (425, "too-early", C.RATE_LIMIT),
    (429, "rate-limit-exceeded", C.RATE_LIMIT),
    (500, "internal-server-error", C.PLATFORM),
    (502, "bad-gateway", C.PLATFORM),
    (503, "service-unavailable", C.PLATFORM),
    (504, "gateway-timeout", C.TIMEOUT),
]


@pytest.mark.parametrize(("status", "error_type", "category"), PLATFORM_REFUSALS)
def test_a_refusal_of_the_platform_is_classified_by_type_and_status(
    status: int, error_type: str, category: ErrorCategory
) -> None:
    envelope = classify(api_error(status, error_type))
    assert envelope.category is category
    assert envelope.retryable is (category in RETRYABLE)
    assert envelope.message == f"The platform answered {status} ({error_type}): as it happens"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (impit.ConnectTimeout("slow"), C.TIMEOUT),
        (impit.ReadTimeout("slow"), C.TIMEOUT),
        (impit.ConnectError("refused"), C.NETWORK),
        (impit.ReadError("reset"), C.NETWORK),
        (impit.RemoteProtocolError("cut"), C.NETWORK),
        (httpx.ReadTimeout("slow"), C.TIMEOUT),
        (httpx.ConnectError("refused"), C.NETWORK),
        (httpx.RemoteProtocolError("cut"), C.NETWORK),
        (TimeoutError(), C.TIMEOUT),
        (ConnectionResetError(104, "reset by peer"), C.NETWORK),
        (InvalidResponseBodyError(cast(HttpResponse, Answer(200, b"<html>"))), C.NETWORK),
        (json.JSONDecodeError("cut off", '{"data": {', 10), C.NETWORK),
        (validation_error(), C.UNKNOWN),
        (platform_mismatch(), C.PLATFORM),
        (impit.TooManyRedirects("round and round"), C.NETWORK),
        (impit.LocalProtocolError("a header"), C.UNKNOWN),
        (httpx.UnsupportedProtocol("gopher"), C.UNKNOWN),
        (OverflowError("too large"), C.UNKNOWN),
        (RecursionError(), C.UNKNOWN),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), C.UNKNOWN),
        (SealError("no such key"), C.AUTHENTICATION),
        (PermissionError(13, "denied"), C.PERMISSION),
        (FileNotFoundError(2, "gone"), C.FILESYSTEM),
        (asyncio.CancelledError(), C.CANCELLED),
        (CancelledError("by an operator"), C.CANCELLED),
        (KeyError("id"), C.UNKNOWN),
        (ZeroDivisionError(), C.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_classified_by_its_kind(error: BaseException, category: ErrorCategory) -> None:
    envelope = classify(error)
    assert (envelope.category, envelope.retryable) == (category, category in RETRYABLE)
    assert envelope.message


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_is_none_is_not_found(name: str) -> None:
    """The words are apify-client's own."""
    with pytest.raises(ValueError, match="URL path segment") as refused:
        await ApifyClientAsync(token="t").dataset(name).get()
    assert classify(refused.value).category is C.NOT_FOUND


@pytest.mark.parametrize("category", list(ErrorCategory))
def test_what_passes_by_itself_is_retried_and_nothing_else(category: ErrorCategory) -> None:
    passing = {C.NETWORK, C.TIMEOUT, C.RATE_LIMIT, C.CAPACITY, C.PLATFORM}
    assert (category in RETRYABLE) is (category in passing)


def test_an_input_that_the_actor_refuses_says_where() -> None:
    envelope = classify(api_error(400, "invalid-input", "Field input.seconds must be a number"))
    assert [(v.path, v.message) for v in envelope.violations or ()] == [
        ("/input", "Field input.seconds must be a number")
    ]


def test_an_answer_of_another_shape_is_counted_and_never_quoted() -> None:
    message = classify(platform_mismatch()).message
    assert TOKEN not in message
    assert message.startswith("The platform's response does not match its documented schema (")


def test_a_value_that_does_not_fit_a_model_of_ours_is_our_defect() -> None:
    message = classify(validation_error()).message
    assert message == "Outlast has a defect: a value does not fit its model Model (1 differences)."


@pytest.mark.parametrize(
    ("error", "may_be"),
    [
        (json.JSONDecodeError("cut off", '{"data": {', 10), True),
        (platform_mismatch(), True),
        (InvalidResponseBodyError(cast(HttpResponse, Answer(200, b"<html>"))), True),
        (impit.TooManyRedirects("round and round"), True),
        (impit.DecodingError("gzip"), True),
        (impit.ConnectError("refused"), False),
        (impit.ReadTimeout("slow"), False),
        (TimeoutError(), False),
        (api_error(503, "service-unavailable"), False),
        (api_error(429, "rate-limit-exceeded"), False),
        (api_error(402, "actor-memory-limit-exceeded"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_outages_pass_and_unreadable_responses_may_not(error: BaseException, may_be: bool) -> None:
    assert classify(error).retryable
    assert may_be_permanent(error) is may_be


def test_tool_and_attempt_are_taken_over() -> None:
    envelope = classify(api_error(503, "x"), tool="call-actor", attempt=3)
    assert (envelope.tool, envelope.attempt) == ("call-actor", 3)


def test_a_failure_with_its_envelope_ready_keeps_it() -> None:
    ready = ErrorEnvelope(tool="", message="no log", category=C.NOT_FOUND, retryable=False, hint="look elsewhere")
    assert classify(ToolFailure(ready), tool="get-actor-log", attempt=2) == ready.model_copy(
        update={"tool": "get-actor-log", "attempt": 2}
    )


def test_a_secret_in_an_envelope_that_was_ready_is_redacted_too() -> None:
    ready = ErrorEnvelope(tool="", message=f"no {TOKEN}" + "x" * 5_000, category=C.NOT_FOUND, retryable=False)
    message = classify(ToolFailure(ready)).message
    assert TOKEN not in message
    assert len(message) <= MAX_MESSAGE_CHARS


@pytest.mark.parametrize("category", list(ErrorCategory))
def test_temporal_retries_exactly_what_the_envelope_calls_retryable(category: ErrorCategory) -> None:
    envelope = ErrorEnvelope(tool="t", message="m", category=category, retryable=category in RETRYABLE)
    error = failure(envelope)
    assert (error.type, error.non_retryable) == (category.value, not envelope.retryable)
    assert error.details == (envelope,)
    assert error.next_retry_delay == (CAPACITY_RETRY_DELAY if category is C.CAPACITY else None)


def test_a_retry_delay_that_is_given_wins() -> None:
    envelope = ErrorEnvelope(tool="t", message="m", category=C.CAPACITY, retryable=True)
    assert failure(envelope, retry_delay=timedelta(seconds=3)).next_retry_delay == timedelta(seconds=3)


@pytest.mark.parametrize(
    "text",
    [
        f"bad token {TOKEN}",
        f"proxy apify_proxy_{'x' * 20}",
        f"Authorization: Bearer {TOKEN}",
        "authorization: bearer 0123456789abcdef",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        "GET https://api.example/v2/acts?token=0123456789abcdef&limit=1",
        "api_key=0123456789abcdef",
        'refused: {"token": "0123456789abcdef"}',
        "{'password': '0123456789abcdef'}",
        "secret = 0123456789abcdef",
        "the token: 0123456789abcdef was refused",
        "cannot reach https://user:0123456789abcdef@proxy.example:8000",
    ],
)
def test_what_looks_like_a_credential_is_redacted(text: str) -> None:
    redacted = redact(text)
    assert "[redacted]" in redacted
    for secret in (TOKEN, TOKEN[-8:], "0123456789abcdef", "dXNlcjpwYXNzd29yZA", "x" * 20):
        assert secret not in redacted


@pytest.mark.parametrize(
    "text",
    [
        "Run abc ended as FAILED",
        "the token was refused",
        "basic input",
        "https://api.example/v2/acts?limit=1",
        "No Apify token: neither the caller nor the server has one.",
        "API key: missing",
    ],
)
def test_what_is_no_credential_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_a_credential_in_a_refusal_is_redacted_wherever_the_envelope_has_text() -> None:
    envelope = classify(api_error(400, "invalid-input", f"Input token={TOKEN} is wrong"))
    assert TOKEN not in envelope.model_dump_json()


@given(st.text(max_size=6_000))
def test_a_message_is_bounded_whatever_failed(text: str) -> None:
    assert len(classify(RuntimeError(text)).message) <= MAX_MESSAGE_CHARS


@given(st.text(alphabet="abcXYZ0189_-", min_size=8, max_size=60), st.text(max_size=50), st.text(max_size=50))
def test_an_apify_token_never_survives(rest: str, before: str, after: str) -> None:
    token = f"apify_api_{rest}"
    assert token not in redact(f"{before} {token} {after}")


def test_a_failure_made_of_a_text_says_how_to_make_one() -> None:
    with pytest.raises(TypeError, match=r"write ToolFailure\.of\(ErrorCategory\.NOT_FOUND"):
        ToolFailure("There is no order.")  # pyright: ignore[reportArgumentType]
