"""The moment that separates tasks that Temporal's lists count from those that the API counts itself."""

import pytest

from outlast.api.tasks.fair_queue import Start, quiet_moment


@pytest.mark.parametrize(
    ("starts", "moment"),
    [
        ([], 100.0),
        ([Start(98, 99), Start(101, 102)], 100.0),
        ([Start(98, 103)], 98.0),
        ([Start(98, 100)], 98.0),
        ([Start(100, 103)], 100.0),
        ([Start(98)], 98.0),
        # Each was asked for while the one before was under way.
        ([Start(96, 99), Start(98, 103), Start(90, 95)], 96.0),
        ([Start(98, 103), Start(96, 99), Start(95, 96)], 95.0),
        # It would be too long ago: better to count one twice for a moment than none for long.
        ([Start(80, 99), Start(98, 103)], 100.0),
    ],
)
def test_no_start_is_under_way_at_the_moment(starts: list[Start], moment: float) -> None:
    assert quiet_moment(starts, latest=100.0, earliest=90.0) == moment
