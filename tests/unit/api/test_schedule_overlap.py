"""What becomes of firings that are due while an earlier one is under way, and which of it goes with a budget."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import pytest
from pydantic import ValidationError
from temporalio.client import ScheduleState

from outlast.activities.contracts import Caller
from outlast.activities.schedules.contracts import Due
from outlast.api.errors import ScheduleRefused
from outlast.api.saved_calls import DueCalls
from outlast.api.schedules.client import changed_order
from outlast.api.schedules.specification import specification
from outlast.contracts.schedules import ScheduleChanges, ScheduleRequest
from outlast.workflows.schedules.contracts import FiringInput, Overlap, Spending, Timing

CALL = {"tool": "double", "arguments": {"number": 1}}


def order(**fields: Any) -> FiringInput:
    return FiringInput(
        schedule_id="nightly",
        temporal_id="t",
        caller=Caller(id="local"),
        due=Due(call=CALL),
        tool="double",
        timing=Timing(cron=("0 0 * * *",), **{name: fields[name] for name in fields.keys() & Timing.model_fields}),
        spending=Spending(**{name: fields[name] for name in fields.keys() & Spending.model_fields}),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        fingerprint="",
    )


async def changed(before: FiringInput, **changes: Any) -> FiringInput:
    """The order with changes that leave what it starts as it is, so that nothing has to be admitted."""
    return await changed_order(cast(DueCalls, None), before.caller, before, ScheduleChanges(**changes))


@pytest.mark.parametrize("overlap", get_args(Overlap))
def test_the_schedule_in_temporal_has_the_overlap_that_its_caller_chose(overlap: Overlap) -> None:
    policy = specification(order(overlap=overlap, catch_up_seconds=90), ScheduleState()).policy
    assert policy.overlap.name.lower() == overlap
    assert policy.catchup_window == timedelta(seconds=90)


def test_unless_told_otherwise_a_firing_that_is_due_during_another_is_left_out() -> None:
    made = ScheduleRequest.model_validate({"id": "a", "call": CALL, "cron": ["@daily"]})
    assert made.overlap == "skip"


@pytest.mark.parametrize("overlap", [name for name in get_args(Overlap) if name != "allow_all"])
async def test_a_budget_goes_with_every_overlap_but_concurrent_firings(overlap: Overlap) -> None:
    body: dict[str, Any] = {"id": "a", "call": CALL, "cron": ["@daily"], "budget_usd": 1}
    assert ScheduleRequest.model_validate(body | {"overlap": overlap}).overlap == overlap
    assert (await changed(order(budget_usd=1), overlap=overlap)).timing.overlap == overlap
    assert (await changed(order(), overlap="allow_all")).timing.overlap == "allow_all"
    with pytest.raises(ValidationError, match="allow_all"):
        ScheduleRequest.model_validate(body | {"overlap": "allow_all"})


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ({"budget_usd": 1}, {"overlap": "allow_all"}),
        ({"overlap": "allow_all"}, {"budget_usd": 1}),
        ({}, {"budget_usd": 1, "overlap": "allow_all"}),
    ],
)
async def test_no_change_brings_a_budget_and_concurrent_firings_together(
    before: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(ScheduleRefused, match="Nothing was changed"):
        await changed(order(**before), **changes)


async def test_a_budget_that_is_taken_back_allows_concurrent_firings() -> None:
    after = await changed(order(budget_usd=1), budget_usd=None, overlap="allow_all")
    assert (after.spending.budget_usd, after.timing.overlap) == (None, "allow_all")
