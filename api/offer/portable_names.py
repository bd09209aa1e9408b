"""Names that model providers accept, and the mapping back to the original names.

Anthropic and OpenAI take `[a-zA-Z0-9_-]`, at most 64 characters, for a tool; Anthropic the same and dots for a field.
MCP servers and Actors have no such rule. A valid name is kept; any other becomes its readable part and a digest.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

MAX_CHARS = 64
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FIELD_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FIRST_DIGEST_CHARS = 8


def fitting_names(names: Iterable[str], pattern: re.Pattern[str] = TOOL_NAME) -> dict[str, str]:
    """`names` by unique names that match `pattern`, in the same order."""
    own = list(dict.fromkeys(names))
    taken = {name for name in own if pattern.fullmatch(name)}
    fitting: dict[str, str] = {}
    for name in own:
        alias = name if name in taken else _alias(name, taken)
        taken.add(alias)
        fitting[alias] = name
    return fitting


def _alias(name: str, taken: set[str]) -> str:
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    for length in range(_FIRST_DIGEST_CHARS, MAX_CHARS):
        readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", name)[: MAX_CHARS - 1 - length].strip("-")
        alias = f"{readable}-{digest[:length]}" if readable else digest[:length]
        if alias not in taken:
            return alias
    raise ValueError(f"No name can be found for {name!r}: every one is taken.")
