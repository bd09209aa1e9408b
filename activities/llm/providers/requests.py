"""Parts of requests that several providers share: extra fields of hooks, schemas of structured output, media. Pure."""

from collections.abc import Container, Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import ImagePart, MediaPart, ToolResultPart
from outlast.activities.failures.exceptions import REFUSED_HERE, ProviderError
from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.media import PDF, PICTURES, UnusableMedia, checked_media, described

_OWN = frozenset(
    {
        "model",
        "tools",
        "tool_choice",
        "system",
        "instructions",
        "messages",
        "input",
        "stream",
        "stream_options",
        "store",
    }
)
"""Fields that a hook never sets: the prompt, on whose bytes caches depend, and the form of the answer."""


def with_extra(provider_id: str, body: JsonObject, extra: Mapping[str, JsonValue]) -> JsonObject:
    """`body` with the fields of `extra` added. Raises `ProviderError` for a field that Outlast sets itself."""
    taken = sorted(name for name in extra if name in body or name in _OWN)
    if taken:
        names = ", ".join(f"`{name}`" for name in taken)
        raise ProviderError(
            provider_id,
            f"A hook of CHAT_PARAMS_HOOKS set {names}, which Outlast sets itself. Use `controls` or leave it out.",
            kinds=(REFUSED_HERE,),
        )
    return {**body, **extra}


def is_strict(schema: JsonObject) -> bool:
    """Return True if every object requires all its properties and no others: OpenAI's rule for strict schemas."""
    return all(_is_closed(one) for one in _objects(schema))


def loose_schema_warnings(provider_id: str, schema: JsonObject | None) -> tuple[str, ...]:
    """Return a warning when the provider does not enforce `schema`."""
    if schema is None or is_strict(schema):
        return ()
    warning = (
        f"{provider_id} follows this output schema as well as it can: to enforce it, set `additionalProperties: false` "
        "and list every property as required, in every object."
    )
    return (warning,)


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for entry in value:
            yield from _objects(entry)
    elif isinstance(value, dict):
        if value.get("type") == "object" or "properties" in value:
            yield value
        for entry in value.values():
            yield from _objects(entry)


def _is_closed(schema: JsonObject) -> bool:
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, dict) else set[str]()
    required = schema.get("required")
    listed = set(cast(list[str], required)) if isinstance(required, list) else set[str]()
    return schema.get("additionalProperties") is False and names == listed


SHOWN = PICTURES | {PDF}
"""Media types that Anthropic and OpenAI accept as part of a tool's result."""
MAX_SHOWN_CHARS = 5_000_000
"""Limit of the media of one result, base64: as much as Anthropic accepts of one picture."""


def shown_to(request: CallModelInput, types: frozenset[str]) -> frozenset[str]:
    """Those of `types`, which the protocol can carry, that the model of `request` is shown: all or none."""
    known = request.sees_pictures
    return types if (MATRIX[request.provider_id].sees_pictures if known is None else known) else frozenset()


def shown_media(media: MediaPart, shown: Container[str], room: int = MAX_SHOWN_CHARS) -> MediaPart | str:
    """The media as a model that accepts the types `shown` gets them: with their real type, or described. `room` is how
    many characters of base64 they may have.
    """
    try:
        real = checked_media(media.media_type, media.data)
    except UnusableMedia as flaw:
        return described(media.name, media.media_type, media.data, str(flaw))
    if real.media_type in shown and len(real.data) <= room:
        return media.model_copy(update={"media_type": real.media_type, "data": real.data})
    return described(media.name, real.media_type, real.data)


def result_content(part: ToolResultPart, shown: Container[str]) -> tuple[str, tuple[MediaPart, ...]]:
    """Return the text of a result, with the descriptions of media that are not shown, and the media that are."""
    visible, room = list[MediaPart](), MAX_SHOWN_CHARS
    texts = [part.text] if part.text.strip() else []
    for media in part.media:
        given = shown_media(media, shown, room)
        if isinstance(given, str):
            texts.append(given)
        else:
            visible.append(given)
            room -= len(given.data)
    return "\n".join(texts), tuple(visible)


def users_picture(part: ImagePart) -> ImagePart | str:
    """Return a picture of a user's message with its real type, or in words. A URL is the provider's to fetch."""
    data = part.data or part.url or ""
    if part.data is None and not data.lower().startswith("data:"):
        return part
    try:
        real = checked_media(part.media_type, data)
        if real.media_type not in PICTURES:
            raise UnusableMedia(f"models do not see {real.media_type}")
    except UnusableMedia as flaw:
        return f"[The user sent a picture ({part.media_type}), which cannot be shown: {flaw}.]"
    return ImagePart(media_type=real.media_type, data=real.data)


def picture_address(part: ImagePart) -> str:
    """Return the URL of a user's picture: its own, or its data as one."""
    return part.url or f"data:{part.media_type};base64,{part.data}"


def data_url(media: MediaPart) -> str:
    """Return the data as a URL (RFC 2397)."""
    return f"data:{media.media_type};base64,{media.data}"
