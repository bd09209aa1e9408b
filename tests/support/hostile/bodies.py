"""Bodies that are large, deep or full of fields."""

import json
from collections.abc import Mapping
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


BODIES: Mapping[str, bytes] = {
    "fields": call(**unknown(300_000)),
    "objects": call(arguments={"input": [{}] * 2_000_000}),
    "depth": b'{"arguments": ' + b"[" * 2_000_000,
    "strings": b'{"arguments": "' + b'\\"' * 2_000_000,
    "fields within the limit": call(**unknown(90_000)),
    "fields inside": call(options=unknown(90_000), budgets=unknown(9), params={"name": "x", "_meta": unknown(90)}),
    "wrong items": call(message=[1] * 90_000, tools=[{}] * 9, answers=unknown(9)),
    "control characters": call(**{"\x01" * 200 + str(number): 1 for number in range(5_000)}),
}
