"""Which pictures and files of tools a model is shown. What it cannot be shown is described in text, never dropped."""

from collections.abc import Container

from outlast.activities.llm.contracts import CallModelInput, MediaPart, ToolResultPart
from outlast.activities.llm.providers.capabilities import MATRIX

PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Types of pictures that Anthropic and OpenAI accept."""
PDF = "application/pdf"
SHOWN = PICTURES | {PDF}
"""What both accept as part of a tool's result."""
MAX_SHOWN_CHARS = 5_000_000
"""Limit of the media of one result, base64: as much as Anthropic accepts of one picture."""


def shown_to(request: CallModelInput, types: frozenset[str]) -> frozenset[str]:
    """Those of `types`, which the protocol can carry, that the model of `request` is shown: all or none."""
    known = request.sees_pictures
    return types if (MATRIX[request.provider_id].sees_pictures if known is None else known) else frozenset()


def is_shown(media: MediaPart, shown: Container[str]) -> bool:
    """Whether a model that accepts the media types `shown` is shown this one."""
    return media.media_type in shown and len(media.data) <= MAX_SHOWN_CHARS


def result_content(part: ToolResultPart, shown: Container[str]) -> tuple[str, tuple[MediaPart, ...]]:
    """The text of a result, with the descriptions of media that are not shown, and the media that are."""
    visible, room = list[MediaPart](), MAX_SHOWN_CHARS
    texts = [part.text] if part.text.strip() else []
    for media in part.media:
        if is_shown(media, shown) and len(media.data) <= room:
            visible.append(media)
            room -= len(media.data)
        else:
            texts.append(media.description)
    return "\n".join(texts), tuple(visible)


def data_url(media: MediaPart) -> str:
    """The data as a URL (RFC 2397)."""
    return f"data:{media.media_type};base64,{media.data}"
