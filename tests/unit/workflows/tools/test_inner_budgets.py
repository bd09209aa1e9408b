"""Budgets of the calls that a tool's function makes."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.activities.runs.contracts import Budget
from outlast.activities.spending.contracts import SpendingCaps
from outlast.workflows.tools.framework.calls import budget_of_each


def _context(budget: str | None, per_task_usd: float | None, cost_usd: float | None) -> Any:
    options = SimpleNamespace(budget=Budget(max_total_charge_usd=None if budget is None else Decimal(budget)))
    call = SimpleNamespace(options=options, caps=SpendingCaps(per_task_usd=per_task_usd))
    return cast("Any", SimpleNamespace(call=call, cost_usd=cost_usd))


@pytest.mark.parametrize(
    ("budget", "per_task_usd", "cost_usd", "share"),
    [
        (None, None, 3.0, None),
        ("2", None, 0.5, "0.75"),
        (None, 1.0, None, "0.5"),
        (None, 1.0, 0.6, "0.2"),
        ("2", 1.0, None, "0.5"),
        ("0.5", 1.0, None, "0.25"),
        (None, 1.0, 1.5, "0"),
    ],
)
def test_calls_share_the_lower_of_the_budget_and_the_cap_of_one_task(
    budget: str | None, per_task_usd: float | None, cost_usd: float | None, share: str | None
) -> None:
    each = budget_of_each(_context(budget, per_task_usd, cost_usd), 2)
    assert each.max_total_charge_usd == (None if share is None else Decimal(share))
