"""`python -m activities.output_store.query`: evaluates JMESPath on rows, in a process of its own.

An expression comes from a caller and can be made to run for ever or to fill the memory. So it is evaluated where both
are limited by the kernel, away from the worker. Reads a line of JSON with the order, then rows, from standard input;
writes the matching rows, then a line of JSON with how far it came.
"""

import resource
import sys
from dataclasses import dataclass
from typing import Any, cast

import jmespath
import orjson
from jmespath.exceptions import JMESPathError

CPU_SECONDS = 10
MEMORY_BYTES = 1024 * 1024 * 1024
MAX_EXPRESSION_CHARS = 1_000


@dataclass(frozen=True)
class Query:
    """Which rows, what of them, and how much at most."""

    filter: str | None
    select: str | None
    limit: int
    max_bytes: int


def main() -> int:
    """0 when done, 2 for an expression that is no JMESPath."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    source = sys.stdin.buffer
    order = Query(**orjson.loads(source.readline()))
    try:
        keep = jmespath.compile(order.filter) if order.filter else None
        pick = jmespath.compile(order.select) if order.select else None
        report = evaluate(order, source, keep, pick)
    except JMESPathError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.buffer.write(orjson.dumps(report) + b"\n")
    return 0


def evaluate(order: Query, rows: Any, keep: Any, pick: Any) -> dict[str, int | bool]:
    """Write what matches; says how many rows were read and how many given."""
    scanned = given = size = 0
    for line in rows:
        row: Any = orjson.loads(line)
        scanned += 1
        if keep is not None and not keep.search(row):
            continue
        found = pick.search(row) if pick is not None else row
        if found is None:
            continue
        text = orjson.dumps(found)
        if given >= order.limit or size + len(text) > order.max_bytes:
            return {"scanned": scanned - 1, "given": given, "more": True}
        sys.stdout.buffer.write(text + b"\n")
        given, size = given + 1, size + len(text) + 1
    return {"scanned": scanned, "given": given, "more": False}


if __name__ == "__main__":
    sys.exit(cast(int, main()))
