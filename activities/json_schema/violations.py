"""The violations of a JSON Schema in a value, where the caller cannot wait or be interrupted: in workflow code.

`schema_violations` is for schemas of this program and its operator. For one of the outside world, an Actor's, use
`quick_violations` in workflows, and `SchemaChecker` elsewhere.
"""

import json

from pydantic import JsonValue

from outlast.activities.failures.contracts import Violation
from outlast.activities.json_schema.cost import NotCountable, nodes_and_patterns
from outlast.activities.json_schema.engine import Found, NeedsSteps, as_text, find

MAX_QUICK_WORK = 20_000_000
"""Values of the schema times bytes of the value: a fifth of a second at the worst, usually a millisecond."""
MAX_QUICK_PATTERN_WORK = 50_000
"""Regular expressions times bytes of the value; the worst ones look at 250,000 characters a second."""


def schema_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
    """The violations of `schema` (JSON Schema 2020-12, with Apify's `nullable`) in `value`; 50 at most.

    An invalid schema accepts every value: its owner checks the value again. Takes as long as it takes.
    """
    return as_violations(find(as_text(schema), value, linear=False))


def quick_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...] | None:
    """As `schema_violations`, but None where finding them might take long. Deterministic."""
    try:
        nodes, patterns = nodes_and_patterns(schema)
        size = len(json.dumps(value))
    except (NotCountable, RecursionError):
        return None
    if nodes * size > MAX_QUICK_WORK or patterns * size > MAX_QUICK_PATTERN_WORK:
        return None
    try:
        return as_violations(find(as_text(schema), value, linear=True))
    except NeedsSteps:
        return None


def as_violations(found: list[Found]) -> tuple[Violation, ...]:
    """`found` as contracts show it."""
    return tuple(Violation.at(one.place, one.message) for one in found)
