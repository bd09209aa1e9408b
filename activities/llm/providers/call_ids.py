"""Ids and names of tool calls that every provider accepts, whoever gave them. Pure.

Conversations change their provider, and a model may call a tool by a name that no tool can have. A provider refuses the
whole conversation for one such call in it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from outlast.activities.llm.contracts import ModelMessage, Part, ToolCallPart, ToolResultPart

_PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Anthropic accepts these characters, OpenAI's Chat Completions this length; its Responses API is less strict."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NAMELESS = "unnamed"


def with_portable_calls(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, ...]:
    """The conversation with names that fit, and with ids that fit and occur once; those that do already stay.

    The ids of earlier messages do not depend on later ones, so that a provider's cache keeps serving them.
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
    """The part with its new id. `given` has the new ids of the latest message's calls, by their own ids."""
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
    """An id for the call with the id `own_id` that had this `number` of others with the same id before it."""
    seed = f"{own_id}\0{number}"
    return f"call_{hashlib.sha256(seed.encode()).hexdigest()[:32]}"
