"""Tools in requests to models: canonical definitions, portable ids and names of calls, and the active tools of a step.
Definitions are serialised once and reused byte for byte, so that a provider's cache keeps serving them.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import ModelMessage, Part, ToolCallPart, ToolResultPart
from outlast.activities.llm.providers.models import Capabilities


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
