"""Which ended runs were cut short, so that they may go on."""

from typing import Any

import pytest

from outlast.activities.runs.contracts import RunState, UntilMet, is_cut_short

ENOUGH = UntilMet(condition="rows", rows=2)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"status": "TIMED-OUT"}, True),
        ({"status": "FAILED"}, True),
        ({"status": "FAILED", "exit_code": 1}, False),
        ({"status": "ABORTED"}, False),
        ({"status": "SUCCEEDED"}, False),
        ({"status": "TIMED-OUT", "until_met": ENOUGH}, False),
        ({"status": "FAILED", "until_met": ENOUGH}, False),
    ],
)
def test_a_run_is_cut_short_when_nobody_wanted_its_end(facts: dict[str, Any], expected: bool) -> None:
    assert is_cut_short(RunState(run_id="r", actor_id="a", dataset_id="d", key_value_store_id="k", **facts)) is expected
