"""Fields that request hooks add to a provider's request. Pure."""

from collections.abc import Mapping

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.provider_error import REFUSED_HERE, ProviderError

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
"""What a hook never sets: the prompt, whose bytes the provider's cache depends on, and how the answer is read."""


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
