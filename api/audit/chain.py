"""The chain: every line names the line before it, and carries a code that only a holder of the key can compute.

A line is a JSON object in ASCII. `seq` counts from 1; `prev` is the `mac` of the line before, 64 zeros for the first
one; `mac`, the last entry, is HMAC-SHA-256 (RFC 2104) of the object without it, byte for byte.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from outlast.api.audit.contracts import AuditRecord, ChainStart

KEY_PURPOSE: Final = "outlast audit log"
"""What the keys of the chain are derived from the sealing keys for."""
BEFORE_THE_FIRST: Final = "0" * 64
_LINE = re.compile(rb'(\{.+),"mac":"([0-9a-f]{64})"\}', re.DOTALL)


@dataclass(frozen=True)
class Position:
    """The end of a chain."""

    seq: int = 0
    mac: str = BEFORE_THE_FIRST


@dataclass(frozen=True)
class Line:
    """A line as it was read. Nothing of it is proven."""

    body: bytes
    mac: str
    fields: Mapping[str, object]

    @property
    def position(self) -> Position:
        """Where the line says that it stands."""
        seq = self.fields.get("seq")
        return Position(seq if isinstance(seq, int) else -1, self.mac)

    @property
    def start(self) -> ChainStart | None:
        """What it says of the chain from here on; None for an ordinary line."""
        found = {name: self.fields[name] for name in ChainStart.model_fields if name in self.fields}
        try:
            return ChainStart.model_validate(found) if found else None
        except ValueError:
            return None

    def is_proven_by(self, key: bytes) -> bool:
        """Whether a holder of `key` wrote it just so."""
        return hmac.compare_digest(_code(key, self.body), self.mac)


def written(
    record: AuditRecord, before: Position, key: bytes, start: ChainStart | None = None
) -> tuple[bytes, Position]:
    """The line of `record` after the line at `before`, and where it stands."""
    seq = before.seq + 1
    fields = record.model_dump(mode="json", exclude_none=True) | (start.model_dump() if start else {})
    body = json.dumps({"seq": seq, **fields, "prev": before.mac}, separators=(",", ":")).encode("ascii")
    mac = _code(key, body)
    return body[:-1] + f',"mac":"{mac}"}}\n'.encode(), Position(seq, mac)


def read_line(line: bytes) -> Line | None:
    """A line, with or without its line break, as its parts; None when it is no line of a chain."""
    match = _LINE.fullmatch(line.removesuffix(b"\n"))
    if match is None:
        return None
    body = match[1] + b"}"
    try:
        fields: object = json.loads(body)
    except ValueError:
        return None
    return Line(body, match[2].decode(), cast("dict[str, object]", fields)) if isinstance(fields, dict) else None


def _code(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()
