"""`python -m outlast.activities.outputs.jmespath_process`: evaluates JMESPath on rows, within the CPU time and memory
that the kernel allows. Standard input: a line with the `Query`, then batches of rows, each after a line with its size
in bytes. Standard output: a line of JSON for the query and for each batch.
"""

import os
import resource
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import jmespath
import orjson
from jmespath.exceptions import JMESPathError, JMESPathTypeError

from outlast.activities.json_values import limited, loads, text_of

CPU_SECONDS = 8
NICENESS = 5
"""Gives way to processes that serve everybody, and still gets CPU time on a machine that is fully used."""
MEMORY_BYTES = 1024 * 1024 * 1024

Answer = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """The rows to keep (`filter`), the expression to apply to them (`select`), and the most bytes of results per batch.
    With `paging`, each batch is one JSON value; of a result that is a list, at most `limit` elements from the index
    `paging` on are returned.
    """

    filter: str | None
    select: str | None
    max_bytes: int
    paging: int | None = None
    limit: int | None = None


def main() -> int:
    """Answer queries until the end of standard input. Returns 0."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(NICENESS)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    query = Query(**orjson.loads(source.readline()))
    try:
        evaluator = Evaluator(query)
        _write(target, {})
        while line := source.readline():
            batch = source.read(int(line))
            _write(target, evaluator.of_value(batch) if query.paging is not None else evaluator.of_rows(batch))
    except JMESPathError as error:
        _write(target, {"error": f"The expression is not valid JMESPath: {' '.join(str(error).split())[:300]}"})
    except TypeError:
        _write(target, {"error": "The expression's result is not a JSON value."})
    except (MemoryError, RecursionError):
        _write(target, {"error": "The expression needs too much memory; simplify it."})
    return 0


class _Unreadable(Exception):
    """A row that is no JSON, or nested more deeply than any parser reads."""


class Evaluator:
    """A compiled query."""

    def __init__(self, query: Query) -> None:
        """Raises `JMESPathError` for an invalid expression."""
        self._query = query
        self._keep: Any = jmespath.compile(query.filter) if query.filter else None
        self._pick: Any = jmespath.compile(query.select) if query.select else None

    def of_rows(self, batch: bytes) -> Answer:
        """`found`: for each matching row its number in the batch, and the result when the query has a `select`. A row
        on which the expression fails (a function on a value of another type) does not match. The scan ends early, after
        `scanned` rows, when the results reach `max_bytes`; a larger single result is replaced by its size.
        """
        found: list[list[Any]] = []
        mismatches: list[str] = []
        scanned = size = 0
        for row in batch.removesuffix(b"\n").split(b"\n"):
            if size > self._query.max_bytes:
                break
            scanned += 1
            try:
                result = self._result(row)
            except (JMESPathTypeError, _Unreadable) as error:
                mismatches.append(" ".join(str(error).split())[:300])
                continue
            if result is not None:
                found.append([scanned - 1, *result])
                size += result[1] if result else 0
        answer: Answer = {"found": found, "scanned": scanned, "mismatches": len(mismatches)}
        return {**answer, "mismatch": mismatches[0]} if mismatches else answer

    def of_value(self, document: bytes) -> Answer:
        """`value`: the result, or the elements of a list that fit, with `next` when more follow; else `size`."""
        try:
            value: Any = limited(self._pick.search(loads(document)))
        except JMESPathTypeError as error:
            return {"error": f"The expression does not fit this value: {' '.join(str(error).split())[:300]}"}
        size = len(text_of(value))
        if isinstance(value, list):
            return self._page(cast("list[Any]", value))
        return {"value": value} if size <= self._query.max_bytes else {"size": size}

    def _page(self, values: list[Any]) -> Answer:
        """The elements that fit. An element that does not fit in any answer is skipped, and its size returned."""
        offset, limit = self._query.paging or 0, self._query.limit
        end = len(values) if limit is None else min(offset + limit, len(values))
        taken: list[Any] = []
        size = 2
        for value in values[offset:end]:
            one = len(text_of(value)) + 1
            if size + one > self._query.max_bytes:
                break
            taken.append(value)
            size += one
        position = offset + len(taken)
        if not taken and position < end:
            return {"value": [], "next": _next(position + 1, values), "size": len(text_of(values[position]))}
        return {"value": taken, "next": _next(position, values)}

    def _result(self, row: bytes) -> list[Any] | None:
        """None for a row that does not match, else the result and its size, or nothing without a `select`."""
        try:
            value: Any = loads(row)
        except ValueError as error:
            raise _Unreadable(str(error)) from error
        if self._keep is not None and not _is_true(self._keep.search(value)):
            return None
        if self._pick is None:
            return []
        result = limited(self._pick.search(value))
        size = len(text_of(result))
        return [result if size <= self._query.max_bytes else None, size]


def _next(position: int, values: list[Any]) -> int | None:
    return position if position < len(values) else None


def _is_true(value: Any) -> bool:
    """Truth as JMESPath defines it: 0 is true."""
    return value is not None and value is not False and value not in ("", [], {})


def _write(target: BinaryIO, answer: Answer) -> None:
    target.write(text_of(answer) + b"\n")
    target.flush()


if __name__ == "__main__":
    sys.exit(main())
