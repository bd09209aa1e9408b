"""Items that wait for the spending limit: one tries at a time, in order, with growing pauses."""

import asyncio
from types import SimpleNamespace

import pytest

from outlast.activities.batches import round as batch_round
from outlast.activities.batches.round import SpendingGate


class Tries:
    """What the ledger answers to each try: a reason against it, or None."""

    def __init__(self, gate: SpendingGate, *answers: str | None) -> None:
        self.gate = gate
        self.answers = list(answers)
        self.through: list[int] = []
        self.at_once = 0

    async def item(self, number: int) -> None:
        async def still_refused() -> str | None:
            self.at_once += 1
            await asyncio.sleep(0)
            assert self.at_once == 1, "Two items try at the same time."
            self.at_once -= 1
            return self.answers.pop(0)

        await self.gate.wait(still_refused)
        self.through.append(number)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time."""
    found: list[float] = []

    def timeout(seconds: float) -> asyncio.Timeout:
        found.append(seconds)
        return asyncio.timeout(0)

    quick = SimpleNamespace(Event=asyncio.Event, Lock=asyncio.Lock, timeout=timeout)
    monkeypatch.setattr(batch_round, "asyncio", quick)
    return found


async def test_items_get_through_one_after_the_other_and_the_last_one_opens_the_gate(pauses: list[float]) -> None:
    gate = SpendingGate(None)
    assert gate.is_open
    gate.close("reserved")
    tries = Tries(gate, "still", None, None, "still", None)
    waiting = [asyncio.ensure_future(tries.item(number)) for number in range(3)]
    while len(tries.through) < 2:
        assert not gate.is_open, "Others would overtake those that wait."
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert (tries.through, tries.answers, gate.is_open) == ([0, 1, 2], [], True)
    assert len(pauses) == 5


async def test_pauses_grow_up_to_a_minute_and_begin_again_when_an_item_has_ended(pauses: list[float]) -> None:
    gate = SpendingGate("of the round before")
    tries = Tries(gate, *["still"] * 6, None)
    await tries.item(0)
    assert pauses == [5, 10, 20, 40, 60, 60, 60]
    gate.close("again")
    gate.item_ended()
    await Tries(gate, None).item(1)
    assert pauses[7:] == [5]


async def test_the_end_of_an_item_ends_the_pause() -> None:
    gate = SpendingGate("reserved")
    tries = Tries(gate, None)
    waiting = asyncio.ensure_future(tries.item(0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert tries.through == []
    gate.item_ended()
    for _ in range(10):
        await asyncio.sleep(0)
    assert tries.through == [0]
    await waiting


@pytest.mark.usefixtures("pauses")
async def test_an_item_that_is_cancelled_while_it_waits_keeps_the_gate_shut_for_nobody() -> None:
    gate = SpendingGate("reserved")
    tries = Tries(gate, *["still"] * 5, None)
    first, second = [asyncio.ensure_future(tries.item(number)) for number in range(2)]
    await asyncio.sleep(0)
    second.cancel()
    await first
    assert (tries.through, second.cancelled(), gate.is_open) == ([0], True, True)
