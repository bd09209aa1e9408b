"""Size of a conversation in tokens, and errors about a conversation that is too long for its model. Pure."""

import json
import re

from outlast.activities.conversations import contracts as conversations
from outlast.activities.failures.exceptions import TOO_LONG, ProviderError
from outlast.activities.llm.contracts import CallModelInput

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
_STATUSES = frozenset({400, 413, 422})


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
    return error.status in _STATUSES and _WORDS.search(error.message) is not None


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
