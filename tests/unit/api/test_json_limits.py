"""Values and depth of a body are counted without parsing it, as a parser would count them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.api.http.request_body import JsonLimits

ODD = st.text('"\\[]{},: \n\u2028é', max_size=8)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | ODD,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ODD, inner, max_size=5),
    max_leaves=30,
)
DEEP = 200


def values_in(document: Any) -> int:
    parts = list(document.values()) if isinstance(document, dict) else document if isinstance(document, list) else []
    return len(parts) + sum(map(values_in, parts))


def depth_of(document: Any) -> int:
    parts = list(document.values()) if isinstance(document, dict) else document if isinstance(document, list) else None
    return 0 if parts is None else 1 + max(map(depth_of, parts), default=0)


def accepted(document: Any, *, max_values: int, max_depth: int, **written: Any) -> bool:
    """Whether it is within the limits; the same for its text as for what a parser made of it."""
    limits = JsonLimits(max_values=max_values, max_depth=max_depth)
    excess = limits.excess(json.dumps(document, **written).encode())
    assert excess == limits.excess_in(document)
    return excess is None


@given(document=DOCUMENTS, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_the_count_is_that_of_a_parser(document: Any, indent: int | None, *, ascii_only: bool) -> None:
    written = {"indent": indent, "ensure_ascii": ascii_only}
    values, depth = values_in(document), depth_of(document)
    assert accepted(document, max_values=values, max_depth=DEEP, **written)
    assert values == 0 or not accepted(document, max_values=values - 1, max_depth=DEEP, **written)
    assert accepted(document, max_values=values, max_depth=depth, **written)
    assert depth == 0 or not accepted(document, max_values=values, max_depth=depth - 1, **written)


@pytest.mark.parametrize("value", [{}, [], 1, "x", {"a": {}}])
def test_as_many_values_are_accepted_as_the_limit_says(value: Any) -> None:
    """Empty objects counted twice once: 240,000 of them were refused."""
    each = 1 + values_in(value)
    assert accepted([value] * (240_000 // each), max_values=240_000, max_depth=DEEP)
    assert not accepted([value] * (240_000 // each + 10), max_values=240_000, max_depth=DEEP)
