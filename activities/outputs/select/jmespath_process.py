"""`python -m outlast.activities.outputs.select.jmespath_process`: evaluates JMESPath on rows, in a process of its own.

An expression comes from a caller and can be made to run for ever or to fill the memory. So it is evaluated where both
are limited by the kernel, away from the worker. Standard input: a line with the `Query`, then batches, each a line with
its size in bytes and then that many bytes of rows. Standard output: a line of JSON for the query and for each batch.
"""

import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import jmespath
import orjson
from jmespath.exceptions import JMESPathError, JMESPathTypeError

from outlast.activities.outputs.format.nesting import is_too_deep

CPU_SECONDS = 8
MEMORY_BYTES = 1024 * 1024 * 1024

Answer = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """Which rows (`filter`), what of them (`select`), and how many bytes of results at most for one batch.

    With `paging`, each batch is one document, the whole value: of a list, elements from there on, `limit` at most.
    """

    filter: str | None
    select: str | None
    max_bytes: int
    paging: int | None = None
    limit: int | None = None


def main() -> int:
    """0 at the end of the input."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    query = Query(**orjson.loads(source.readline()))
    try:
        evaluator = Evaluator(query)
        _say(target, {})
        for batch in _batches(source):
            _say(target, evaluator.of_value(batch) if query.paging is not None else evaluator.of_rows(batch))
    except JMESPathError as error:
        _say(target, {"error": f"The expression is no JMESPath: {' '.join(str(error).split())[:300]}"})
    except TypeError:
        _say(target, {"error": "The expression's result is no JSON value."})
    except (MemoryError, RecursionError):
        _say(target, {"error": "The expression needs too much memory; make it simpler."})
    return 0


class Evaluator:
    """A query, compiled."""

    def __init__(self, query: Query) -> None:
        """Raises `JMESPathError` for what is no JMESPath."""
        self._query = query
        self._keep: Any = jmespath.compile(query.filter) if query.filter else None
        self._pick: Any = jmespath.compile(query.select) if query.select else None

    def of_rows(self, batch: bytes) -> Answer:
        """`found`: of each matching row its number in the batch, and the result when one was asked for.

        A row to which the expression does not apply (a function on a value of another type) does not match. Ends early,
        after `scanned` rows, when the results have reached the size that is wanted; a result that alone exceeds it is
        replaced by its size.
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
            except (JMESPathTypeError, orjson.JSONDecodeError) as error:
                mismatches.append(" ".join(str(error).split())[:300])
                continue
            if result is not None:
                found.append([scanned - 1, *result])
                size += result[1] if result else 0
        answer: Answer = {"found": found, "scanned": scanned, "mismatches": len(mismatches)}
        return {**answer, "mismatch": mismatches[0]} if mismatches else answer

    def of_value(self, document: bytes) -> Answer:
        """`value`, the result; of a list what fits, and `next` when more follow. `size` when too large."""
        try:
            value: Any = _carried(self._pick.search(orjson.loads(document)))
        except JMESPathTypeError as error:
            return {"error": f"The expression does not fit this value: {' '.join(str(error).split())[:300]}"}
        size = len(orjson.dumps(value))
        if isinstance(value, list):
            return self._page(cast("list[Any]", value))
        return {"value": value} if size <= self._query.max_bytes else {"size": size}

    def _page(self, values: list[Any]) -> Answer:
        """Elements that fit. One that would fit in no answer is passed over, and its size told."""
        offset, limit = self._query.paging or 0, self._query.limit
        end = len(values) if limit is None else min(offset + limit, len(values))
        taken: list[Any] = []
        size = 2
        for value in values[offset:end]:
            one = len(orjson.dumps(value)) + 1
            if size + one > self._query.max_bytes:
                break
            taken.append(value)
            size += one
        position = offset + len(taken)
        if not taken and position < end:
            return {"value": [], "next": _next(position + 1, values), "size": len(orjson.dumps(values[position]))}
        return {"value": taken, "next": _next(position, values)}

    def _result(self, row: bytes) -> list[Any] | None:
        """None for a row that does not match; else what is said of it."""
        value: Any = orjson.loads(row)
        if self._keep is not None and not _is_true(self._keep.search(value)):
            return None
        if self._pick is None:
            return []
        result = _carried(self._pick.search(value))
        size = len(orjson.dumps(result))
        return [result if size <= self._query.max_bytes else None, size]


def _carried(result: Any) -> Any:
    """The result; one that is too deeply nested as its text."""
    return orjson.dumps(result).decode() if is_too_deep(result) else result


def _next(position: int, values: list[Any]) -> int | None:
    return position if position < len(values) else None


def _is_true(value: Any) -> bool:
    """As JMESPath defines it: 0 is true."""
    return value is not None and value is not False and value not in ("", [], {})


def _batches(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline():
        yield source.read(int(line))


def _say(target: BinaryIO, answer: Answer) -> None:
    target.write(orjson.dumps(answer) + b"\n")
    target.flush()


if __name__ == "__main__":
    sys.exit(main())
