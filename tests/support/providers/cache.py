"""What providers' prompt caches would serve, from the true common prefix of requests.

A token is four bytes of JSON. OpenAI: prefixes of 1,024 tokens and more, in blocks of 128. Anthropic: prefixes of 1,024
tokens and more that end at a breakpoint of an earlier request, looked for at most 20 blocks before one of this request;
another `tool_choice` is another conversation behind the same definitions and static text.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.providers.rules import input_items

_BYTES_PER_TOKEN = 4
_LEAST_TOKENS = 1_024
_BLOCK_TOKENS = 128
_LOOK_BACK = 20


@dataclass(frozen=True)
class CacheUse:
    """Tokens of one request. `total` counts everything, what is read and written included."""

    total: int
    read: int
    written: int


@dataclass
class PromptCache:
    """Everything that was sent so far, by model."""

    _prompts: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    _entries: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def use(self, protocol: str, body: Mapping[str, Any]) -> CacheUse:
        """What the request reads, and keep it for the next ones."""
        return self._breakpoints(body) if protocol == "messages" else self._automatic(protocol, body)

    def _automatic(self, protocol: str, body: Mapping[str, Any]) -> CacheUse:
        prompt = _prompt(protocol, body)
        earlier = self._prompts.setdefault(f"{protocol} {body['model']} {body.get('prompt_cache_key')}", [])
        common = max((_common(prompt, one) for one in earlier), default=0)
        earlier.append(prompt)
        total, read = len(prompt) // _BYTES_PER_TOKEN, _in_blocks(common // _BYTES_PER_TOKEN)
        return CacheUse(total, read, max(0, _in_blocks(total) - read))

    def _breakpoints(self, body: Mapping[str, Any]) -> CacheUse:
        blocks = _blocks(body)
        ends, digests, marks = _prefixes(blocks)
        entries = self._entries.setdefault(body["model"], set())
        readable = [
            at
            for mark in marks
            for at in range(mark, max(-1, mark - _LOOK_BACK), -1)
            if digests[at] in entries and ends[at] >= _LEAST_TOKENS
        ]
        read = max((ends[at] for at in readable), default=0)
        kept = [mark for mark in marks if ends[mark] >= _LEAST_TOKENS]
        entries.update(digests[mark] for mark in kept)
        written = max(0, max((ends[mark] for mark in kept), default=0) - read)
        return CacheUse(ends[-1], read, written)


def _prompt(protocol: str, body: Mapping[str, Any]) -> bytes:
    parts = [body.get("tools", [])]
    parts += [body.get("instructions", ""), *input_items(body)] if protocol == "responses" else body["messages"]
    return b"\n".join(json.dumps(part, ensure_ascii=False).encode() for part in parts)


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _in_blocks(tokens: int) -> int:
    return 0 if tokens < _LEAST_TOKENS else tokens // _BLOCK_TOKENS * _BLOCK_TOKENS


def _blocks(body: Mapping[str, Any]) -> list[tuple[bytes, bool]]:
    """The prompt in the order of the API, and where its breakpoints are. `tool_choice` belongs to the conversation."""
    system = body.get("system", [])
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    listed: list[tuple[str, Mapping[str, Any]]] = [("tool", tool) for tool in body.get("tools", [])]
    listed += [("system", block) for block in system]
    choice = json.dumps(body.get("tool_choice", {"type": "auto"}))
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        listed += [(f"{message['role']} {choice}", block) for block in blocks]
    return [(_without_mark(where, block), "cache_control" in block) for where, block in listed]


def _without_mark(where: str, block: Mapping[str, Any]) -> bytes:
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps([where, plain], ensure_ascii=False).encode()


def _prefixes(blocks: list[tuple[bytes, bool]]) -> tuple[list[int], list[str], list[int]]:
    """Per block: tokens up to its end, digest of everything up to its end; and the indices of the breakpoints."""
    running, size = hashlib.sha256(), 0
    ends: list[int] = []
    digests: list[str] = []
    for content, _ in blocks:
        running.update(content)
        size += len(content)
        ends.append(size // _BYTES_PER_TOKEN)
        digests.append(running.hexdigest())
    return ends, digests, [index for index, (_, marked) in enumerate(blocks) if marked]
