"""Budgets of a turn: what it has used, and whether it may continue. Pure."""

from typing import TypeVar

from outlast.activities.llm.contracts import ModelStep, Usage
from outlast.workflows.contracts.sessions import Budgets, Spent

Number = TypeVar("Number", int, float)


class BudgetExceeded(Exception):
    """A budget was used up within a step. The text says which one."""


def added(spent: Spent, step: ModelStep) -> Spent:
    """`spent`, plus one call of the model."""
    return Spent(
        steps=spent.steps + 1,
        usage=summed(spent.usage, step.usage),
        usd=spent.usd + (step.cost_usd or 0.0),
        seconds=spent.seconds,
    )


def summed(one: Usage, other: Usage) -> Usage:
    """The sum of both."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
    )


def with_summary(spent: Spent, usage: Usage, cost_usd: float | None) -> Spent:
    """`spent`, plus a call of the model that is no step."""
    return spent.model_copy(update={"usage": summed(spent.usage, usage), "usd": spent.usd + (cost_usd or 0.0)})


def exceeded_within_step(budgets: Budgets, spent: Spent) -> str | None:
    """Check as `exceeded` does, for another model call within a step: it does not count as a step."""
    return exceeded(budgets.model_copy(update={"steps": None}), spent)


def total(one: Spent, other: Spent) -> Spent:
    """The sum of both."""
    return Spent(
        steps=one.steps + other.steps,
        usage=summed(one.usage, other.usage),
        usd=one.usd + other.usd,
        seconds=one.seconds + other.seconds,
    )


def exceeded(budgets: Budgets, spent: Spent) -> str | None:
    """Return the exhausted budget in words; None if the next step may begin. A timer watches the time budget."""
    tokens = spent.usage.input_tokens + spent.usage.output_tokens
    if budgets.steps is not None and spent.steps >= budgets.steps:
        return f"{spent.steps} of {budgets.steps} steps are used"
    if budgets.tokens is not None and tokens >= budgets.tokens:
        return f"{tokens} of {budgets.tokens} tokens are used"
    if budgets.usd is not None and spent.usd >= budgets.usd:
        return f"{spent.usd:.4f} of {budgets.usd:g} US dollars are used"
    return None


def last_step(budgets: Budgets, max_steps: int) -> int:
    """The number of the last step that the turn may make; the first is 1."""
    return min(max_steps, budgets.steps or max_steps)


def left(session: Budgets, used: Spent, turn: Budgets) -> tuple[Budgets, str | None]:
    """The turn's budgets, limited to what its session has left; and the session's budget that is used up, if one is."""
    tokens = used.usage.input_tokens + used.usage.output_tokens
    over = exceeded(session, used)
    if session.minutes is not None and used.seconds >= session.minutes * 60:
        over = over or f"{session.minutes:g} minutes are used"
    if over is not None:
        return turn, over
    return Budgets(
        steps=_least(turn.steps, session.steps and session.steps - used.steps),
        tokens=_least(turn.tokens, session.tokens and session.tokens - tokens),
        usd=_least(turn.usd, session.usd and session.usd - used.usd),
        minutes=_least(turn.minutes, session.minutes and session.minutes - used.seconds / 60),
    ), None


def _least(one: Number | None, other: Number | None) -> Number | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given) if given else None
