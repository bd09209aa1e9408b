"""Parts of requests that providers share: tools, schemas of structured output, media, extra fields of hooks. Pure.

Tools in requests to models: canonical definitions, portable ids and names of calls, and the active tools of a step.
Definitions are serialised once and reused byte for byte, so that a provider's cache keeps serving them.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import (
    ImagePart,
    MediaPart,
    ModelMessage,
    Part,
    ToolCallPart,
    ToolResultPart,
)
from outlast.activities.failures.exceptions import REFUSED_HERE, ProviderError
from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.llm.providers.models import MATRIX, Capabilities
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
        f"{provider_id} may not follow this output schema exactly: to enforce it, set `additionalProperties: false` "
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


@dataclass(frozen=True)
class Definition:
    """A tool as a model sees it."""

    name: str
    description: str
    input_schema: JsonObject


def canonical_definitions(definitions: Iterable[Definition]) -> str:
    """`CallModelInput.definitions_json` of these tools: by name, keys sorted, no spaces. Equal sets of tools give equal
    texts, in whatever order they come.
    """
    listed = [
        {"name": one.name, "description": one.description, "input_schema": one.input_schema}
        for one in sorted(definitions, key=lambda one: one.name)
    ]
    return json.dumps(listed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=64)
def read_definitions(definitions_json: str) -> tuple[Definition, ...]:
    """Return the definitions in their order. Raises `ValueError` for anything else than a list of them."""
    listed: object = json.loads(definitions_json)
    if not isinstance(listed, list):
        raise ValueError("Tool definitions are a JSON list.")  # noqa: TRY004 (the text is wrong, not its type)
    return tuple(_definition(entry) for entry in cast(list[object], listed))


def _definition(entry: object) -> Definition:
    fields = cast(dict[str, object], entry) if isinstance(entry, dict) else {}
    name, description, schema = (fields.get(key) for key in ("name", "description", "input_schema"))
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(schema, dict)):
        raise ValueError("A tool definition is {name, description, input_schema}.")  # noqa: TRY004 (as above)
    return Definition(name, description, cast(JsonObject, schema))


_PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Anthropic accepts these characters, OpenAI's Chat Completions this length; its Responses API is less strict."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NAMELESS = "unnamed"


def with_portable_calls(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, ...]:
    """The conversation with names that fit, and with ids that fit and occur once; those that do already stay. The ids
    of earlier messages do not depend on later ones, so that a provider's cache keeps serving them.
    """
    used, given = Counter[str](), dict[str, list[str]]()
    renamed: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            given = {}
        parts = tuple(_renamed(part, used, given) for part in message.parts)
        renamed.append(message if parts == message.parts else message.model_copy(update={"parts": parts}))
    return tuple(renamed)


def _renamed(part: Part, used: Counter[str], given: dict[str, list[str]]) -> Part:
    """Return the part with its new id. `given` has the new ids of the latest message's calls, by their own ids."""
    match part:
        case ToolCallPart():
            number = used[part.id]
            used[part.id] += 1
            fits = number == 0 and _PORTABLE.fullmatch(part.id)
            new = part.id if fits else _made_of(part.id, number)
            given.setdefault(part.id, []).append(new)
            return _changed(part, id=new, name=_portable_name(part.name))
        case ToolResultPart():
            waiting = given.get(part.call_id)
            return _changed(part, call_id=waiting.pop(0) if waiting else part.call_id, name=_portable_name(part.name))
        case _:
            return part


def _changed(part: Part, **fields: str) -> Part:
    """`part` itself where `fields` change nothing."""
    is_same = all(getattr(part, name) == value for name, value in fields.items())
    return part if is_same else part.model_copy(update=fields)


def _portable_name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name).strip("_")[:64] or _NAMELESS


def _made_of(own_id: str, number: int) -> str:
    """Return an id for the call with the id `own_id` that had this `number` of others with the same id before it."""
    seed = f"{own_id}\0{number}"
    return f"call_{hashlib.sha256(seed.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class ToolPlan:
    """The part of a request about the tools, in addition to their constant definitions."""

    choice: Literal["free", "some", "none"]
    """`some`: only `allowed`; `none`: no tool; `free`: no restriction."""
    allowed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_tools(
    definitions: Sequence[Definition], active: Sequence[str] | None, provider_id: str, can: Capabilities
) -> ToolPlan:
    """Return the plan for a step. For a provider without the capability it is `free`, with a warning: the caller of the
    provider then refuses calls of inactive tools.
    """
    if active is None or not definitions:
        return ToolPlan("free")
    allowed = tuple(one.name for one in definitions if one.name in active)
    if len(allowed) == len(definitions):
        return ToolPlan("free")
    if not allowed:
        if can.forbids_all_tools:
            return ToolPlan("none")
        return ToolPlan("free", warnings=(f"{provider_id} cannot forbid all tool calls: calls are refused.",))
    if can.limits_active_tools:
        return ToolPlan("some", allowed)
    warning = f"{provider_id} cannot limit the active tools: calls of the others are refused."
    return ToolPlan("free", warnings=(warning,))
