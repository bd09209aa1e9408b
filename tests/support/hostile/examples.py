"""How much is tried: a little in every run of the tests, always the same; much, always other, in a thorough one."""

import pytest
from hypothesis import HealthCheck, Phase, settings

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
