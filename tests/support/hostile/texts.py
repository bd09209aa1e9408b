"""Values that are easily handled wrongly, as Hypothesis makes them up."""

import json
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = st.sampled_from(
    [
        "",
        " ",
        ".",
        "..",
        "../..",
        "%00",
        "\0",
        "\x1b[2J",
        "a\r\nb: c",
        "\u202e\u2028",
        "\ud800",
        "\U0010ffff",
        "' OR 1=1 --",
        "{{7*7}}",
        "null",
        "-1",
        "1e999",
        "9" * 400,
        "x" * 5_000,
        "task-" + "0" * 64,
        "out_" + "A" * 60,
    ]
)
TEXTS = st.text(max_size=30) | ODD_TEXTS
NUMBERS = st.integers() | st.sampled_from([0, -1, 2**31, 2**53, 2**64, -(2**63), 10**400]) | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
"""JSON as Python's own parser takes it: with lone surrogates, with numbers that fit nowhere, with NaN."""


def mostly(value: st.SearchStrategy[Any], other: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[Any]:
    """What is meant, and once in twelve times something else: of many parts, few are broken at once."""
    return st.integers(1, 12).flatmap(lambda number: other if number == 7 else value)


def as_json(value: Any) -> bytes:
    """`value` as a careless client writes it: half characters as escapes, NaN as `NaN`."""
    return json.dumps(value).encode()
