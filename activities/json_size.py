"""How much JSON a workflow may decode: a worker's workflow task has two seconds, and its memory is everybody's. Pure.

A text of a megabyte costs a millisecond. The same megabyte as 350,000 empty objects costs a second, and 100 MB of
memory for as long as the workflow is cached. So values are counted, too.
"""

from typing import cast

MAX_VALUES = 50_000
"""Values in one document that a workflow decodes: some 50 milliseconds, and 10 MB at most."""
MAX_BYTES = 1024 * 1024
"""Size of the arguments that a workflow decodes. Large inputs of Actors are not decoded, see `activities.inputs`."""


def has_more_values(document: object, limit: int = MAX_VALUES) -> bool:
    """Whether a JSON document consists of more than `limit` values. Takes time in proportion to `limit` at most."""
    counted = 1
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            parts = cast(dict[str, object], value).values()
        elif isinstance(value, list | tuple):
            parts = cast("list[object] | tuple[object, ...]", value)
        else:
            continue
        counted += len(parts)
        if counted > limit:
            return True
        waiting.extend(parts)
    return False
