"""Every provider, through its official library, against a server that speaks its wire format and keeps its rules."""

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Iterator

import pytest

from outlast.activities.contracts import ErrorCategory
from outlast.activities.conversations.contracts import ImagePart, ModelMessage, TextPart
from outlast.activities.failures.classify import classify
from outlast.activities.failures.exceptions import ProviderError
from outlast.activities.llm.providers.answers import Provider
from tests.support.eventually import eventually
from tests.support.providers.model_requests import PROVIDERS, Heard, order, providers_for, results, said, user
from tests.support.providers.script import Break, Call, Fail, Hold, Refusal, Reply, by_position, in_order, says
from tests.support.providers.server import KEY, ProviderServer, running_provider

C = ErrorCategory


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with running_provider(by_position(says("Hello."))) as server:
        yield server


@pytest.fixture(params=PROVIDERS)
async def called(request: pytest.FixtureRequest, server: ProviderServer) -> AsyncIterator[tuple[str, Provider]]:
    """Each provider in turn."""
    provider = providers_for(server)[request.param]
    yield request.param, provider
    await provider.close()


async def test_text_comes_whole_and_in_pieces(server: ProviderServer, called: tuple[str, Provider]) -> None:
    name, provider = called
    server.script = by_position(says("Grüß ", "Gott, ", "Welt"))
    heard = Heard()
    step = await provider.call(order(name), heard)
    assert step.text == "".join(heard.texts) == "Grüß Gott, Welt"
    assert heard.texts == ["Grüß ", "Gott, ", "Welt"]
    assert (step.finish_reason, step.tool_calls, step.warnings) == ("stop", (), ())
    assert step.usage.input_tokens > 0
    assert step.usage.output_tokens == len("Grüß Gott, Welt".encode()) // 4


async def test_calls_are_answered_in_the_next_step(server: ProviderServer, called: tuple[str, Provider]) -> None:
    name, provider = called
    server.script = by_position(
        says("Let me see. ", Call("search", {"q": "ü"}), Call("fetch", {"q": "y"})), says("Found.")
    )
    heard = Heard()
    first = await provider.call(order(name), heard)
    assert first.finish_reason == "tool_calls"
    assert list(heard.pieces) == [f"{call.name} {call.id}" for call in first.tool_calls]
    assert ["".join(pieces) for pieces in heard.pieces.values()] == [call.raw_arguments for call in first.tool_calls]
    assert all(len(pieces) > 1 for pieces in heard.pieces.values()), "as the model writes them"
    assert [(call.name, call.arguments) for call in first.tool_calls] == [("search", {"q": "ü"}), ("fetch", {"q": "y"})]
    assert len({call.id for call in first.tool_calls}) == 2
    messages = (user("Hello"), said(first), results(first.tool_calls, "the result"))
    second = await provider.call(order(name, *messages, step=2), Heard())
    assert second.text == "Found."
    assert server.requests[-1].asked.results == ("the result", "the result")


async def test_arguments_that_are_no_object_are_kept_as_written(
    server: ProviderServer, called: tuple[str, Provider]
) -> None:
    name, provider = called
    server.script = by_position(says(Call("search", '{"q": '), Call("fetch", "[1]"), Call("write", "")), says("Sorry."))
    step = await provider.call(order(name), Heard())
    assert [(call.arguments, call.raw_arguments) for call in step.tool_calls] == [
        (None, '{"q": '),
        (None, "[1]"),
        ({}, ""),
    ]
    messages = (user("Hello"), said(step), results(step.tool_calls, is_error=True))
    assert (await provider.call(order(name, *messages), Heard())).text == "Sorry."


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_why_an_answer_ended_is_told(server: ProviderServer, called: tuple[str, Provider], finish: str) -> None:
    name, provider = called
    server.script = by_position(Reply(("Once upon",), finish))  # type: ignore[arg-type]  # one of two words
    step = await provider.call(order(name), Heard())
    assert (step.text, step.finish_reason) == ("Once upon", finish)


async def test_pictures_and_dynamic_text_are_taken(server: ProviderServer, called: tuple[str, Provider]) -> None:
    name, provider = called
    server.script = by_position(says("I see."))
    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    link = ImagePart(media_type="image/png", url="https://pictures.example/1.png")
    message = ModelMessage(role="user", parts=(TextPart(text="What is it?"), picture, link))
    step = await provider.call(order(name, message, dynamic="It is noon."), Heard())
    assert step.text == "I see."
    raw = server.requests[-1].raw.decode()
    assert raw.index("You are helpful.") < raw.index("noon") < raw.index("What is it?") < raw.index("iVBORw0KGgo=")
    assert "https://pictures.example/1.png" in raw


async def test_messages_without_content_do_not_break_a_request(
    server: ProviderServer, called: tuple[str, Provider]
) -> None:
    name, provider = called
    server.script = by_position(says(Call("search", {"q": "x"})), says("Nothing."))
    first = await provider.call(order(name), Heard())
    silent = ModelMessage(role="assistant", parts=(TextPart(text=""),))
    messages = (user("Hello"), said(first), results(first.tool_calls, ""), silent, user("And now?"))
    assert (await provider.call(order(name, *messages), Heard())).text


MASKED = [
    (
        "openai",
        ("search",),
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "search"}]},
    ),
    ("openai", (), "none"),
    ("openai", ("write", "search", "fetch"), None),
    ("anthropic", ("search",), None),
    ("anthropic", (), {"type": "none"}),
    ("generic", ("search",), None),
    ("generic", (), "none"),
    ("zai", ("search",), None),
    ("zai", (), None),
]


@pytest.mark.parametrize(("name", "active", "choice"), MASKED)
async def test_a_mask_travels_beside_the_definitions(
    server: ProviderServer, name: str, active: tuple[str, ...], choice: object
) -> None:
    provider = providers_for(server)[name]
    server.script = by_position(says(Call("fetch", {"q": "x"})))
    step = await provider.call(order(name, active_tools=active), Heard())
    await provider.close()
    seen = server.requests[-1]
    assert seen.asked.tools == ("fetch", "search", "write")
    assert seen.body.get("tool_choice") == choice
    is_limited = len(active) < 3
    assert bool(step.tool_calls) is (choice is None)
    assert bool(step.warnings) is (is_limited and choice is None)


async def test_without_tools_nothing_is_said_of_them(server: ProviderServer, called: tuple[str, Provider]) -> None:
    name, provider = called
    server.script = by_position(says("Hello."))
    await provider.call(order(name, definitions_json="[]", active_tools=()), Heard())
    assert not {"tools", "tool_choice"} & server.requests[-1].body.keys()


REFUSALS = [
    (400, "invalid_request_error", None, C.VALIDATION, False),
    (401, "authentication_error", "invalid_api_key", C.AUTHENTICATION, False),
    (402, "billing_error", None, C.PAYMENT, False),
    (403, "permission_error", None, C.PERMISSION, False),
    (404, "not_found_error", "model_not_found", C.NOT_FOUND, False),
    (408, "timeout_error", None, C.TIMEOUT, True),
    (413, "request_too_large", None, C.VALIDATION, False),
    (422, "invalid_request_error", None, C.VALIDATION, False),
    (429, "rate_limit_error", "rate_limit_exceeded", C.RATE_LIMIT, True),
    (429, "insufficient_quota", "insufficient_quota", C.PAYMENT, False),
    (500, "api_error", None, C.PLATFORM, True),
    (503, "server_error", None, C.PLATFORM, True),
    (529, "overloaded_error", None, C.PLATFORM, True),
]


@pytest.mark.parametrize(("status", "kind", "code", "category", "retryable"), REFUSALS)
async def test_a_refusal_is_classified_and_its_words_stay_visible(
    server: ProviderServer,
    called: tuple[str, Provider],
    status: int,
    kind: str,
    code: str | None,
    category: ErrorCategory,
    retryable: bool,
) -> None:
    name, provider = called
    refusal = Refusal(status, kind, f"No, said {KEY} the server.", {"retry-after": "7"}, code)
    server.script = in_order(refusal)
    count = len(server.requests)
    error = await _failure(provider, name)
    assert len(server.requests) == count + 1, "the libraries must not retry"
    envelope = classify(error)
    assert (envelope.category, envelope.retryable) == (category, retryable)
    assert f"{name} {status}" in envelope.message
    assert "No, said [redacted] the server." in envelope.message
    assert error.retry_after is not None
    assert error.retry_after.total_seconds() == 7


@pytest.mark.parametrize("message", ["prompt is too long: 9 tokens > 8 maximum", "maximum context length is 8 tokens"])
async def test_a_conversation_that_is_too_long_is_told_so(
    server: ProviderServer, called: tuple[str, Provider], message: str
) -> None:
    name, provider = called
    server.script = in_order(Refusal(400, "invalid_request_error", message))
    envelope = classify(await _failure(provider, name))
    assert envelope.category is C.VALIDATION
    assert "too long for this model" in (envelope.hint or "")


@pytest.mark.parametrize("pieces", [(), ("Once ",), ("Once ", Call("search", {"q": "x"}))])
async def test_a_stream_that_breaks_off_is_a_network_failure(
    server: ProviderServer, called: tuple[str, Provider], pieces: tuple[str | Call, ...]
) -> None:
    name, provider = called
    server.script = in_order(Reply((*pieces, Break())))
    envelope = classify(await _failure(provider, name))
    assert (envelope.category, envelope.retryable) == (C.NETWORK, True)


async def test_an_overload_in_the_middle_of_a_stream_is_retryable(
    server: ProviderServer, called: tuple[str, Provider]
) -> None:
    name, provider = called
    server.script = in_order(Reply(("Once ", Fail("overloaded_error", "Overloaded"))))
    envelope = classify(await _failure(provider, name))
    assert (envelope.category, envelope.retryable) == (C.PLATFORM, True)
    assert "Overloaded" in envelope.message


async def test_a_server_that_is_not_there_is_a_network_failure(server: ProviderServer) -> None:
    with running_provider(by_position(says("Hello."))) as gone:
        providers = providers_for(gone)
    for name, provider in providers.items():
        envelope = classify(await _failure(provider, name))
        assert (envelope.category, envelope.retryable) == (C.NETWORK, True)
        await provider.close()


async def test_silence_is_a_timeout(server: ProviderServer) -> None:
    server.script = in_order(Reply(("Once ", Hold("silence"))))
    for name, provider in providers_for(server, model_silence_seconds=0.2).items():
        envelope = classify(await _failure(provider, name))
        assert (envelope.category, envelope.retryable) == (C.TIMEOUT, True)
        await provider.close()


async def _failure(provider: Provider, name: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.call(order(name), Heard())
    return caught.value


def open_streams() -> list[str]:
    """Generators of the HTTP client that wait to be read on or closed."""
    generators = [found for found in gc.get_objects() if inspect.isasyncgen(found) and found.ag_frame is not None]
    return [found.__qualname__ for found in generators if found.__qualname__.startswith("Response.")]


async def test_a_call_that_stops_reading_leaves_no_stream_open(
    server: ProviderServer, called: tuple[str, Provider]
) -> None:
    name, provider = called
    server.script = by_position(says("I could go on ", "and on"))

    class Stopping(Heard):
        def text(self, piece: str) -> None:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError) as caught:
        await provider.call(order(name), Stopping())
    # The error holds the frames of the call, as that of a cancelled activity does, and with them the stream.
    assert caught.value.__traceback__ is not None
    await eventually(lambda: open_streams() == [])
