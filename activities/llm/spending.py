"""Calls of models in their caller's ledger: none begins when a cap is used up, and each is booked."""

import uuid

from outlast.activities.llm.contracts import CallModelInput
from outlast.activities.spending.contracts import ReserveInput, Settlement, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers
from outlast.activities.spending.refusals import resets, rest_of


async def used_up(ledgers: Ledgers, request: CallModelInput) -> str | None:
    """Which cap leaves nothing for the call, in words; None while it may begin.

    Nothing is reserved: what a step costs is known when it has been answered.
    """
    if request.caps is None:
        return None
    caps = request.caps.model_copy(update={"per_task_usd": None})
    asked = ReserveInput(spend=_spend(request), caller=request.caller, caps=caps, hold=False)
    refusal = (await ledgers.reserve(asked)).refusal
    return None if refusal is None else f"{rest_of(refusal)}.{resets(refusal)}"


async def book(ledgers: Ledgers, request: CallModelInput, usd: float | None) -> None:
    """Book what an answered call has cost. Each call of a provider is paid, so each is an entry of its own."""
    if usd:
        await ledgers.settle(request.caller, Settlement(spend=_spend(request), cost_usd=exact_usd(usd)))


def _spend(request: CallModelInput) -> Spend:
    return Spend(
        entry_id=uuid.uuid4().hex,
        kind="model",
        model=f"{request.provider_id}/{request.model_id}",
        session_id=request.session_id,
        task_id=request.turn_id,
    )
