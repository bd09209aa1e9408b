"""Finds text in the tools of MCP servers that is aimed at a model behind its user's back. Pure.

A flag is a reason for a person to look, not a verdict: it refuses nothing. Pins hold what was looked at.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from outlast.activities.mcp_servers.contracts import ServerTool
from outlast.activities.unicode_text import hidden_in, printable, without_hidden

_MAX_TEXT_CHARS: Final = 20_000
_MAX_SHOWN: Final = 5
_MAX_SHOWN_CHARS: Final = 80
_NOT = r"(?:do(?:es)? not|don['’]?t|never|must not|mustn['’]?t|should not|without)"
_OTHERS = r"(?:previous|prior|earlier|above|preceding|other|all|any|these|system|your)"
_SAYS = r"(?:tell|inform|notify|mention|reveal|show|disclose|ask|alert)(?:ing)?"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_PATTERNS: Final = {
    "tells models to ignore instructions": _any(
        rf"\b(?:ignore|disregard|forget|override|bypass)\s+(?:(?:{_OTHERS}|of|the|my)\s+)*"
        r"(?:instructions?|prompts?|messages?|rules?|guidelines?|restrictions?|directions?)\b"
    ),
    "tells models to hide something": _any(
        rf"\b{_NOT}\s+(?:\w+\s+){{0,2}}?{_SAYS}\s+(?:\w+\s+){{0,6}}?(?:user|human|person|operator)s?\b",
        rf"\b{_NOT}\s+(?:mention|reveal|disclose)\s+(?:this|these|that|it)\b",
    ),
    "tells models when to call tools": _any(
        r"\b(?:before|after|whenever|instead of)\s+(?:you\s+)?(?:using|calling|invoking|running|use|call|invoke|run)\s+"
        r"(?:any|other|another|every|all|the other)\s+(?:other\s+)?tools?\b",
        r"\b(?:always|must)\s+(?:\w+\s+){0,3}?(?:call|use|invoke|run)\s+(?:this|the)\s+(?:\w+\s+)?tool\s+(?:first|before)\b",
    ),
    "imitates a message of the system": _any(
        r"</?(?:important|system|instructions?|secret|admin|assistant|user_?query)>",
        r"\[/?(?:INST|SYSTEM)\]|<\|im_start\|>",
        r"\byour (?:new|real|actual) (?:task|instructions?|goal)\b",
    ),
    "names files with credentials": _any(
        r"(?:~|\$HOME|/home/\w+|/root)/\.(?:ssh|aws|gnupg|kube|config/gcloud|netrc|npmrc|env)\b",
        r"\bid_(?:rsa|ed25519)\b|\.cursor/mcp\.json|claude_desktop_config\.json|/etc/(?:passwd|shadow)\b",
    ),
    "asks for the conversation": _any(
        r"\b(?:entire|full|whole|complete)\s+(?:conversation|chat)s?(?:\s+(?:history|log))?\b"
    ),
}
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_MARKED_NAME = re.compile(r".*(?:[_-]|[a-z][A-Z]).*")
"""Names that are not ordinary words, such as `git_log`."""


def flags_of(tool: ServerTool, others: Collection[str] = ()) -> tuple[str, ...]:
    """Return what is suspicious in a tool, in words. `others` are names of tools of other servers."""
    texts = [tool.name, tool.title or "", tool.description, *_texts(tool.input_schema), *_texts(tool.output_schema)]
    return flags_of_text("\n".join(texts), others)


def flags_of_text(text: str, others: Collection[str] = ()) -> tuple[str, ...]:
    """Return what is suspicious in a text for models, in words."""
    found = dict[str, None]()
    if len(text) > _MAX_TEXT_CHARS:
        found[f"is longer than {_MAX_TEXT_CHARS:,} characters, of which the rest is not looked at"] = None
        text = text[:_MAX_TEXT_CHARS]
    if hidden := hidden_in(text):
        found[f"has hidden characters ({_listed(hidden)})"] = None
    # What hidden characters separate, models read together.
    seen = " ".join(without_hidden(text, lambda _run: "").split())
    for words, pattern in _PATTERNS.items():
        if match := pattern.search(seen):
            found[f"{words} ({_quoted(match[0])})"] = None
    if named := named_tools(seen, others):
        found[f"names tools of other servers ({_listed(named)})"] = None
    return tuple(found)


def named_tools(text: str, others: Collection[str]) -> tuple[str, ...]:
    """Return those of `others` that the text names, without names that are ordinary words."""
    if not others:
        return ()
    words = dict.fromkeys(_WORD.findall(text))
    return tuple(word for word in words if word in others and _MARKED_NAME.fullmatch(word))


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield all names and texts in a schema."""
    if isinstance(value, str):
        yield value
    for one in value if isinstance(value, list) else ():
        yield from _texts(one)
    for name, one in value.items() if isinstance(value, dict) else ():
        yield name
        yield from _texts(one)


def _listed(names: Iterable[str]) -> str:
    all_names = list(names)
    more = f", and {len(all_names) - _MAX_SHOWN} more" if len(all_names) > _MAX_SHOWN else ""
    return ", ".join(all_names[:_MAX_SHOWN]) + more


def _quoted(text: str) -> str:
    short = text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"
    return json.dumps(printable(short), ensure_ascii=False)
