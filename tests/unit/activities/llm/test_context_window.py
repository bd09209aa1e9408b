"""Conversations that are too long for a model, and the text that is summarised."""

import pytest

from outlast.activities.conversations.contracts import ImagePart, ModelMessage, TextPart, ToolCallPart, ToolResultPart
from outlast.activities.failures.exceptions import ProviderError
from outlast.activities.llm.compaction import locators_of, piece_of_transcript, transcript_of
from outlast.activities.llm.refused_prompts import check_window, is_too_long, prompt_tokens
from tests.support.providers.model_requests import order, user

REFUSALS = [
    ("prompt is too long: 210000 tokens > 200000 maximum", ("invalid_request_error",), 400, True),
    ("Your input exceeds the context window of this model.", ("context_length_exceeded",), 400, True),
    ("Your input exceeds the context window of this model.", ("context_length_exceeded",), None, True),
    ("This model's maximum context length is 8192 tokens.", (), 400, True),
    ("Prompt exceeds max length", ("1261",), 400, True),
    ("Request exceeds the maximum size", ("request_too_large",), 413, True),
    ("the context window service is down", ("api_error",), 503, False),
    ("Invalid schema for function 'x'.", ("invalid_request_error",), 400, False),
    ("max_tokens: must be at most 64000", ("invalid_request_error",), 400, False),
]


@pytest.mark.parametrize(("message", "kinds", "status", "expected"), REFUSALS)
def test_a_refusal_for_length_is_told_from_others(
    message: str, kinds: tuple[str, ...], status: int | None, expected: bool
) -> None:
    assert is_too_long(ProviderError("openai", message, kinds=kinds, status=status)) is expected


def test_the_window_holds_prompt_and_answer() -> None:
    asked = order("generic", user("x" * 4_000), system="", definitions_json="[]", max_output_tokens=500)
    assert 1_000 <= prompt_tokens(asked) <= 1_050
    check_window(asked.model_copy(update={"window_tokens": 1_600}))
    with pytest.raises(ProviderError, match="the window of model-1 has 1500"):
        check_window(asked.model_copy(update={"window_tokens": 1_500}))


def test_a_picture_counts_the_same_whatever_its_size() -> None:
    message = ModelMessage(role="user", parts=(ImagePart(media_type="image/png", data="A" * 4_000_000),))
    assert prompt_tokens(order("generic", message, system="", definitions_json="")) == 1_600


def test_a_transcript_names_speakers_calls_and_locators_and_is_cut_to_size() -> None:
    call = ToolCallPart(id="c", name="fetch", arguments={}, raw_arguments='{"q": "x"}')
    result = ToolResultPart(call_id="c", name="fetch", text="y" * 9_000, locator="out-1")
    messages = (
        user("Fetch x."),
        ModelMessage(role="assistant", parts=(TextPart(text="I look."), call)),
        ModelMessage(role="tool", parts=(result, result)),
    )
    whole = transcript_of(messages)
    assert whole.startswith('USER: Fetch x.\n\nASSISTANT: I look.\n\nASSISTANT calls fetch: {"q": "x"}\n\n')
    assert "fetch (stored as out-1): yyy" in whole
    assert "[5000 characters left out]" in whole
    assert locators_of(messages) == ("out-1",)


@pytest.mark.parametrize("size", [1, 7, 400, 1_000, 100_000])
def test_a_transcript_is_cut_to_size_between_paragraphs_and_nothing_is_lost(size: int) -> None:
    transcript = "\n\n".join([*("word " * number for number in range(1, 60)), "y" * 3_000])
    pieces: list[str] = []
    while (done := sum(map(len, pieces))) < len(transcript):
        pieces.append(piece_of_transcript(transcript, done, size))
        assert 0 < len(pieces[-1]) <= size
    assert "".join(pieces) == transcript
    if size == 400:
        assert pieces[0].endswith("\n\n")
