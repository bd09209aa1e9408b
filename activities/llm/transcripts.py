"""A conversation as a text, for the model that summarises it. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from outlast.activities.llm.contracts import ModelMessage, Part, TextPart, ToolCallPart, ToolResultPart

MAX_ARGUMENT_CHARS = 1_000
MAX_RESULT_CHARS = 4_000


def transcript_of(messages: Sequence[ModelMessage]) -> str:
    """The whole conversation as a text; long arguments and results are shortened."""
    return "\n\n".join(_paragraphs(messages))


def piece_of_transcript(transcript: str, start: int, size: int) -> str:
    """At most `size` characters from `start` on, cut between paragraphs where they are short enough. Never empty."""
    piece = transcript[start : start + size]
    end = piece.rfind("\n\n") + 2
    is_last = start + size >= len(transcript)
    return piece if is_last or end <= size // 2 else piece[:end]


def locators_of(messages: Iterable[ModelMessage]) -> tuple[str, ...]:
    """The locators of stored outputs in `messages`, each once."""
    parts = (part for message in messages for part in message.parts if isinstance(part, ToolResultPart))
    return tuple(dict.fromkeys(part.locator for part in parts if part.locator))


def _paragraphs(messages: Sequence[ModelMessage]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if line := _paragraph(message.role, part):
                yield line


def _paragraph(role: str, part: Part) -> str:
    match part:
        case TextPart(text=text):
            return f"{role.upper()}: {text}" if text.strip() else ""
        case ToolCallPart():
            return f"ASSISTANT calls {part.name}: {_shortened(part.raw_arguments, MAX_ARGUMENT_CHARS)}"
        case ToolResultPart():
            stored = f" (stored as {part.locator})" if part.locator else ""
            failed = " failed" if part.is_error else ""
            return f"{part.name}{failed}{stored}: {_shortened(part.text, MAX_RESULT_CHARS)}"
        case _ if part.type == "image":
            return f"{role.upper()}: [a picture]"
        case _:
            return ""


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} characters left out]"
