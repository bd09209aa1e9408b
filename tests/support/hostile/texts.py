"""Hypothesis strategies for texts and values that are easily handled wrongly, and how many examples run."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

TIMES = pytest.mark.parametrize(
    "times", [1, pytest.param(40, marks=[pytest.mark.thorough, pytest.mark.timeout(3_600)])], ids=["some", "many"]
)
"""For tests that make up what they send: `examples(25, times)`."""


def examples(count: int, times: int, *, steps: int = 50) -> settings:
    """Settings of Hypothesis for `count` examples, or lives of so many steps, and `times` as many.

    A few are not made smaller when one fails: that would take longer than all of them.
    """
    thorough = times > 1
    return settings(
        max_examples=count * times,
        stateful_step_count=steps,
        derandomize=not thorough,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if thorough else [])],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        print_blob=False,
    )


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
