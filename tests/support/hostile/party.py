"""A caller among others, all of whose answers are checked: whatever it sends, some things must not come back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.hostile.pulse import Pulse

MOST_REFUSAL_BYTES = 1_000_000
_DEFECTS = {-32603, 0}
"""JSON-RPC's internal error, and what the MCP SDK answers for a handler that fails in the older revision."""
_TIMEOUT = httpx.Timeout(120, read=60)


@dataclass
class Party:
    """One caller. Its `canary` stands in what it says, and must come back to nobody else."""

    name: str
    http: httpx.Client
    pulse: Pulse
    strangers: list["Party"] = field(default_factory=list["Party"])

    @property
    def canary(self) -> str:
        return canary_of(self.name)

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The whole answer to a request, checked."""
        with self.pulse.patience(f"{method} {path}"):
            answer = self.http.request(method, path, **request)
        self.check(answer.status_code, answer.content, f"{method} {path}")
        return answer

    def peek(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        """The beginning of an answer that may be a stream without an end, checked; the rest is left."""
        with self.pulse.patience(f"{method} {path}"), self.http.stream(method, path, **request) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                content = next(answer.iter_raw(), b"")
            else:
                content = answer.read()
        self.check(answer.status_code, content, f"{method} {path}")
        return answer.status_code, content

    def check(self, status: int, content: bytes, request: str) -> None:
        """Raise `AssertionError` for an answer that nobody may get."""
        told = f"{self.name}: {request}: {status} {content[:2_000]!r}"
        assert status < 500, told
        errors = rpc_errors(content)
        assert not _DEFECTS & set(errors), told
        if status >= 400 or errors:
            assert len(content) < MOST_REFUSAL_BYTES, told[:2_000]
        for other in self.strangers:
            assert other.canary.encode() not in content, told


def canary_of(name: str) -> str:
    """What is said by nobody but this caller."""
    return f"canary-of-{name}"


def rpc_errors(content: bytes) -> list[int]:
    """The codes of the JSON-RPC errors in an answer, which is JSON or a stream of events."""
    codes: list[int] = []
    for line in content.splitlines():
        text = line.removeprefix(b"data:").strip()
        if text.startswith((b"{", b"[")):
            codes += _codes(text)
    return codes


def _codes(text: bytes) -> Iterator[int]:
    try:
        read = json.loads(text)
    except ValueError:
        return
    for message in read if isinstance(read, list) else [read]:
        error: Any = message.get("error") if isinstance(message, dict) and "jsonrpc" in message else None
        if isinstance(error, dict):
            yield error.get("code", 0)


@contextmanager
def parties(url: str, pulse: Pulse, keys: dict[str, str]) -> Iterator[list[Party]]:
    """The callers with these keys, strangers to each other."""
    everybody = [
        Party(
            name,
            httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=_TIMEOUT),
            pulse,
        )
        for name, key in keys.items()
    ]
    for party in everybody:
        party.strangers = [other for other in everybody if other is not party]
    try:
        yield everybody
    finally:
        for party in everybody:
            party.http.close()
