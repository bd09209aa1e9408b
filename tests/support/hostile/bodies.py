"""Bodies that are large, deep or full of fields."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any


def call(**fields: Any) -> bytes:
    """A tool call in the forms of REST and of MCP at once."""
    return json.dumps({"tool": "call-actor", "jsonrpc": "2.0", "id": 1, "method": "tools/call", **fields}).encode()


def actor_call(**arguments: Any) -> bytes:
    """A call of an Actor over REST."""
    return json.dumps({"tool": "call-actor", "arguments": arguments}).encode()


def unknown(count: int) -> dict[str, int]:
    """So many fields that nobody has asked for."""
    return {f"unknown{number}": number for number in range(count)}


_MAKERS: Mapping[str, Callable[[], bytes]] = {
    "fields": lambda: call(**unknown(300_000)),
    "objects": lambda: call(arguments={"input": [{}] * 2_000_000}),
    "depth": lambda: b'{"arguments": ' + b"[" * 2_000_000,
    "strings": lambda: b'{"arguments": "' + b'\\"' * 2_000_000,
    "fields within the limit": lambda: call(**unknown(90_000)),
    "fields inside": lambda: call(
        options=unknown(90_000), budgets=unknown(9), params={"name": "x", "_meta": unknown(90)}
    ),
    "wrong items": lambda: call(message=[1] * 90_000, tools=[{}] * 9, answers=unknown(9)),
    "control characters": lambda: call(**{"\x01" * 200 + str(number): 1 for number in range(5_000)}),
}
KINDS = tuple(_MAKERS)


@functools.cache
def body_of(kind: str) -> bytes:
    """One of the `KINDS`; made when it is first asked for, because all of them together take two seconds of a core."""
    return _MAKERS[kind]()
