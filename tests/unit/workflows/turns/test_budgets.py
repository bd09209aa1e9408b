"""What a turn may use, alone and within its session."""

from outlast.activities.llm.contracts import ModelStep, Usage
from outlast.workflows.contracts.sessions import Budgets, Spent
from outlast.workflows.turns.budgets import added, exceeded, last_step, left, total

USED = Spent(steps=3, usage=Usage(input_tokens=90, output_tokens=10), usd=0.5, seconds=60)


def test_a_step_is_added() -> None:
    step = ModelStep(finish_reason="stop", usage=Usage(input_tokens=5, cache_read_tokens=4), cost_usd=0.25)
    after = added(USED, step)
    assert (after.steps, after.usage.input_tokens, after.usage.cache_read_tokens, after.usd) == (4, 95, 4, 0.75)
    assert total(USED, USED).seconds == 120


def test_no_budget_never_ends() -> None:
    assert exceeded(Budgets(), USED) is None


def test_every_budget_ends() -> None:
    for budgets in (Budgets(steps=3), Budgets(tokens=100), Budgets(usd=0.5)):
        assert exceeded(budgets, USED) is not None
    for budgets in (Budgets(steps=4), Budgets(tokens=101), Budgets(usd=0.51)):
        assert exceeded(budgets, USED) is None


def test_the_last_step_is_the_nearer_limit() -> None:
    assert (last_step(Budgets(), 20), last_step(Budgets(steps=2), 20), last_step(Budgets(steps=30), 20)) == (20, 2, 20)


def test_a_turn_gets_what_its_session_has_left() -> None:
    budgets, over = left(Budgets(steps=5, tokens=150, usd=2, minutes=3), USED, Budgets(steps=9, tokens=20))
    assert over is None
    assert budgets == Budgets(steps=2, tokens=20, usd=1.5, minutes=2)


def test_a_session_whose_budget_is_used_up_begins_no_turn() -> None:
    assert left(Budgets(minutes=1), USED, Budgets())[1] is not None
    assert left(Budgets(steps=3), USED, Budgets())[1] is not None
