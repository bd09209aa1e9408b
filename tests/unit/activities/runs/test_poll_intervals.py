"""The wait of each poll of a run."""

from datetime import timedelta

import pytest

from outlast.activities.runs.activities import RunTiming


@pytest.mark.parametrize(
    ("age", "runs", "seconds"),
    [
        (0, 1, 1),  # a young run's status message is fresh
        (100, 1, 10),
        (3_600, 1, 30),
        (0, 1_000, 20),  # 50 polls a second
        (3_600, 1_000, 30),
        (0, 3_000, 60),
        (3_600, 10_000, 60),  # the platform answers after a minute at the latest
    ],
)
def test_an_old_run_and_one_of_many_is_asked_for_less_often(age: int, runs: int, seconds: int) -> None:
    assert RunTiming().wait_of_poll(timedelta(seconds=age), runs) == timedelta(seconds=seconds)


def test_a_run_that_is_judged_is_looked_at_every_five_seconds_at_the_least() -> None:
    assert RunTiming().wait_of_poll(timedelta(hours=3), 1, is_judged=True) == timedelta(seconds=5)
    assert RunTiming().wait_of_poll(timedelta(seconds=5), 1, is_judged=True) == timedelta(seconds=1)
