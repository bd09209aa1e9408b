"""What providers say of their failures: when to come back, what kind it is, and never a key."""

from datetime import UTC, datetime, timedelta

import pytest

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import MAX_MESSAGE_CHARS, classify, failure, retry_delay_of
from outlast.activities.failures.exceptions import CONNECTION, MAX_RETRY_AFTER, ProviderError, retry_after_of
from outlast.activities.llm.providers.streamed_provider import provider_failures

C = ErrorCategory
NOW = datetime(2026, 1, 1, tzinfo=UTC)

HEADERS = [
    ("7", None, timedelta(seconds=7)),
    ("0.5", None, timedelta(seconds=0.5)),
    ("7", "250", timedelta(milliseconds=250)),
    ("Thu, 01 Jan 2026 00:00:30 GMT", None, timedelta(seconds=30)),
    ("Wed, 31 Dec 2025 00:00:30 GMT", None, None),
    ("86400", None, MAX_RETRY_AFTER),
    ("inf", None, None),
    ("nan", None, None),
    ("soon", None, None),
    ("-1", None, None),
    ("0", None, None),
    (None, None, None),
]


@pytest.mark.parametrize(("seconds", "milliseconds", "delay"), HEADERS)
def test_how_long_to_wait_is_read_from_the_headers(
    seconds: str | None, milliseconds: str | None, delay: timedelta | None
) -> None:
    assert retry_after_of(seconds, milliseconds, NOW) == delay


KINDS = [
    (("overloaded_error",), None, C.PLATFORM),
    (("api_error",), None, C.PLATFORM),
    (("rate_limit_exceeded",), None, C.RATE_LIMIT),
    (("insufficient_quota",), 429, C.PAYMENT),
    (("something_new",), 429, C.RATE_LIMIT),
    (("something_new",), None, C.PLATFORM),
    ((), 529, C.PLATFORM),
    ((), 422, C.VALIDATION),
    ((), 418, C.UNKNOWN),
    ((CONNECTION,), None, C.NETWORK),
]


@pytest.mark.parametrize(("kinds", "status", "category"), KINDS)
def test_the_providers_own_word_says_more_than_the_status(
    kinds: tuple[str, ...], status: int | None, category: ErrorCategory
) -> None:
    assert classify(ProviderError("openai", "No.", kinds=kinds, status=status)).category is category


def test_the_pause_that_a_provider_asks_for_reaches_temporal() -> None:
    error = ProviderError("openai", "Slow down.", status=429, retry_after=timedelta(seconds=9))
    raised = failure(classify(error), retry_delay=retry_delay_of(error))
    assert (raised.next_retry_delay, raised.non_retryable) == (timedelta(seconds=9), False)
    assert retry_delay_of(ValueError("no provider")) is None


@pytest.mark.parametrize(
    "told",
    ["Incorrect API key provided: sk-ab12cd34ef56gh78.", "key sk-proj-****************wxyz", "Bearer 0123456789"],
)
def test_keys_are_left_out(told: str) -> None:
    message = classify(ProviderError("openai", told, status=401)).message
    assert "[redacted]" in message
    assert not any(secret in message for secret in ("ab12cd34", "wxyz", "0123456789"))


def test_a_key_without_a_form_of_its_own_is_left_out_too() -> None:
    with pytest.raises(ProviderError) as caught, provider_failures("zai", "0a1b2c.d3e4"):
        raise ProviderError("zai", "0a1b2c.d3e4 is wrong", status=401)
    assert str(caught.value) == caught.value.message == "[redacted] is wrong"


def test_a_message_is_bounded() -> None:
    assert len(classify(ProviderError("openai", "x" * 10_000, status=500)).message) == MAX_MESSAGE_CHARS
