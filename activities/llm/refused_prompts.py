"""Prompts that a provider refuses: their size in tokens, and parts that it does not accept, which words replace so that
the conversation can continue.

A provider answers 400 to a whole request for one picture that it cannot read, or for reasoning that it no longer
accepts.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from outlast.activities.conversations import contracts as conversations
from outlast.activities.failures.classify import redact
from outlast.activities.failures.exceptions import TOO_LONG, ProviderError
from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.media import described

CHARS_PER_TOKEN = 4
"""As providers count English text and JSON, on average. Of other texts they count more, and then refuse the call."""
MEDIA_TOKENS = 1_600
"""About what a picture counts, whatever its size in bytes."""
_FRAME_CHARS = 28
"""Characters around a text or a call: its type, and the names of its fields."""
_KINDS = frozenset(
    {TOO_LONG, "context_length_exceeded", "request_too_large", "model_max_prompt_tokens_exceeded", "1261"}
)
_WORDS = re.compile(
    r"prompt is too long|context (window|length|size)|exceeds? max(imum)? (prompt |input )?length|input is too long",
    re.IGNORECASE,
)
_STATUSES_OF_LENGTH = frozenset({400, 413, 422})
_STATUSES_OF_PARTS = frozenset({400, 415, 422})
_OF_MEDIA = re.compile(
    r"image|picture|photo|media|document|pdf|base64|file|vision|visual|multi-?modal|modalit|url|pixel|download",
    re.IGNORECASE,
)
_MOST_SINGLE_TRIES = 8
"""The number of pictures that are left out one by one, the latest first, before all are."""
_MOST_KEPT = 10_000
_REASON_CHARS = 300

Medium = conversations.ImagePart | conversations.MediaPart
Refused = Callable[[Medium], str | None]


def tokens_of_message(message: conversations.ModelMessage) -> int:
    """About how many tokens a message counts."""
    return sum(_tokens_of_part(part) for part in message.parts)


def prompt_tokens(request: CallModelInput) -> int:
    """About how many tokens the whole prompt counts."""
    texts = len(request.system) + len(request.dynamic) + len(request.definitions_json)
    return texts // CHARS_PER_TOKEN + sum(tokens_of_message(message) for message in request.messages)


def check_window(request: CallModelInput) -> None:
    """Raise `ProviderError` when prompt and answer together are more than the model's window, where it is known."""
    if request.window_tokens is None:
        return
    counted = prompt_tokens(request) + request.max_output_tokens
    if counted > request.window_tokens:
        raise ProviderError(
            request.provider_id,
            f"prompt and answer have about {counted} tokens; the window of {request.model_id} has "
            f"{request.window_tokens}",
            kinds=(TOO_LONG,),
        )


def is_too_long(error: ProviderError) -> bool:
    """Return True if the provider refused the call because the conversation is too long."""
    if not _KINDS.isdisjoint(error.kinds):
        return True
    return error.status in _STATUSES_OF_LENGTH and _WORDS.search(error.message) is not None


def _tokens_of_part(part: conversations.Part) -> int:
    """Nothing is serialised for it: a long conversation has hundreds of texts, and each call counts them all."""
    if isinstance(part, conversations.TextPart):
        return (_FRAME_CHARS + len(part.text)) // CHARS_PER_TOKEN
    if isinstance(part, conversations.ToolCallPart):
        return (_FRAME_CHARS + len(part.id) + len(part.name) + len(part.raw_arguments)) // CHARS_PER_TOKEN
    if isinstance(part, conversations.ImagePart):
        return MEDIA_TOKENS
    if isinstance(part, conversations.ToolResultPart):
        return len(part.text) // CHARS_PER_TOKEN + MEDIA_TOKENS * len(part.media)
    return len(json.dumps(part.model_dump(mode="json"), ensure_ascii=False)) // CHARS_PER_TOKEN


@dataclass(frozen=True)
class Attempt:
    """A request without some of its parts, to be sent after the provider has refused it with them."""

    request: CallModelInput
    left_out: tuple[str, ...]
    """Keys of the media that are left out."""
    words: str
    """A warning with the parts that were left out, and the reason."""


class RefusedParts:
    """Remembers which media were refused by which model, so that later requests are sent without them at once."""

    def __init__(self) -> None:
        self._reasons: LRUCache[str, str] = LRUCache(_MOST_KEPT)

    def without_known(self, request: CallModelInput) -> CallModelInput:
        """Return the request without what its model has refused before."""
        if not self._reasons:
            return request
        return _without(request, lambda medium: self._reasons.get(_key(request, medium)))

    def learn(self, attempt: Attempt, error: ProviderError) -> None:
        """The provider has accepted `attempt` after it had refused the whole with `error`."""
        self._reasons.update(dict.fromkeys(attempt.left_out, _reason(error)))


def simpler_requests(request: CallModelInput, error: ProviderError) -> Iterator[Attempt]:
    """Requests to send instead of one that was refused with `error`; none if no part can be the reason.
    First without one of the latest media, if the provider speaks of media; then without all; then without reasoning.
    """
    if error.status not in _STATUSES_OF_PARTS or is_too_long(error):
        return
    found = list(_media_of(request.messages))
    keys = [_key(request, medium) for medium in reversed(found)]
    singles = list(dict.fromkeys(keys))
    if len(singles) > 1 and _OF_MEDIA.search(error.message):
        for key in singles[:_MOST_SINGLE_TRIES]:
            yield _attempt(request, (key,), error)
    simpler = request
    if singles:
        attempt = _attempt(request, tuple(singles), error)
        yield attempt
        simpler = attempt.request
    unreasoned = [_without_reasoning(message) for message in simpler.messages]
    if unreasoned != list(simpler.messages):
        words = f"{request.provider_id} refused the conversation, which was sent without reasoning: {_reason(error)}"
        yield Attempt(simpler.model_copy(update={"messages": tuple(unreasoned)}), tuple(singles), words)


def _attempt(request: CallModelInput, keys: tuple[str, ...], error: ProviderError) -> Attempt:
    reason = _reason(error)
    simpler = _without(request, lambda medium: reason if _key(request, medium) in keys else None)
    count = "a picture or file" if len(keys) == 1 else f"{len(keys)} pictures or files"
    words = f"{request.provider_id} refused {count} of the conversation, described in words instead: {reason}"
    return Attempt(simpler, keys, words)


def _reason(error: ProviderError) -> str:
    return f"the provider refused it ({redact(error.message)[:_REASON_CHARS]})"


def _key(request: CallModelInput, medium: Medium) -> str:
    content = medium.data or (medium.url if isinstance(medium, conversations.ImagePart) else None) or ""
    seed = f"{request.provider_id}\0{request.model_id}\0{medium.media_type}\0{content}"
    return hashlib.sha256(seed.encode()).hexdigest()


def _media_of(messages: Sequence[conversations.ModelMessage]) -> Iterator[Medium]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, conversations.ImagePart):
                yield part
            elif isinstance(part, conversations.ToolResultPart):
                yield from part.media


def _without(request: CallModelInput, refused: Refused) -> CallModelInput:
    messages = tuple(_message_without(message, refused) for message in request.messages)
    return request if messages == request.messages else request.model_copy(update={"messages": messages})


def _message_without(message: conversations.ModelMessage, refused: Refused) -> conversations.ModelMessage:
    if not any(
        isinstance(part, conversations.ImagePart) or (isinstance(part, conversations.ToolResultPart) and part.media)
        for part in message.parts
    ):
        return message
    return message.model_copy(update={"parts": tuple(_part_without(part, refused) for part in message.parts)})


def _part_without(part: conversations.Part, refused: Refused) -> conversations.Part:
    match part:
        case conversations.ImagePart():
            reason = refused(part)
            kind = part.media_type
            return (
                part
                if reason is None
                else conversations.TextPart(text=f"[The user sent a picture ({kind}): {reason}.]")
            )
        case conversations.ToolResultPart(media=media) if media:
            kept = tuple(one for one in media if refused(one) is None)
            words = [described(one.name, one.media_type, one.data, reason) for one in media if (reason := refused(one))]
            text = "\n".join(text for text in (part.text, *words) if text.strip())
            return part if not words else part.model_copy(update={"text": text, "media": kept})
        case _:
            return part


def _without_reasoning(message: conversations.ModelMessage) -> conversations.ModelMessage:
    kept = tuple(part for part in message.parts if not isinstance(part, conversations.ReasoningPart))
    return message if len(kept) == len(message.parts) else message.model_copy(update={"parts": kept})
