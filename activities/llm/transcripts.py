"""A conversation as a text, for the model that summarises it. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from outlast.activities.llm.contracts import ModelMessage, Part, TextPart, ToolCallPart, ToolResultPart

MAX_ARGUMENT_CHARS = 1_000
MAX_RESULT_CHARS = 4_000


def pieces_of_transcript(messages: Sequence[ModelMessage], size: int) -> Iterator[str]:
    """The transcript in pieces of `size` characters at most, cut between paragraphs where they are short enough."""
    piece = ""
    for paragraph in (cut for line in _paragraphs(messages) for cut in _cuts(line, size)):
        if piece and len(piece) + len(paragraph) + 2 > size:
            yield piece
            piece = ""
        piece = f"{piece}\n\n{paragraph}" if piece else paragraph
    if piece:
        yield piece


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


def _cuts(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
