"""`Leg`: which items of a batch run again, and in which state. Their rows are taken out of the results.

A retry runs the failed items again, a resume those that were cancelled and all that were never started.
"""

from array import array
from collections.abc import AsyncGenerator

from outlast.activities.batches.batch_results import ResultsWriter
from outlast.activities.batches.contracts import BatchState, Counts, ItemRow, LegInput, Lines, ResultsState
from outlast.activities.batches.items import ItemList


class Leg:
    """Reads the rows of the legs before. Memory grows by 16 bytes for each item that runs again."""

    def __init__(self, request: LegInput, results: ResultsWriter) -> None:
        """Read the rows that `results` has."""
        self._request = request
        self._results = results
        self._again = array("q")
        self._attempts = array("q")
        self._counts = Counts()

    async def kept(self) -> AsyncGenerator[list[bytes]]:
        """The rows that stay."""
        async for batch in (await self._results.reader()).row_batches():
            yield [row for row in batch if not self._runs_again(row)]

    async def planned(self, items: ItemList) -> AsyncGenerator[list[int]]:
        """Index and attempts of the items that run again, then of those without a row. Read `kept` first."""
        for pair in zip(self._again, self._attempts, strict=True):
            yield list(pair)
        state = self._request.state
        for slot in state.under_way:
            yield [slot.index, slot.attempt - 1]
        beyond = {*state.beyond, *(slot.position for slot in state.under_way)}
        position = state.cursor
        async for pair in items.planned_from(position):
            if position not in beyond:
                yield pair
            position += 1

    def state_with(self, plan: Lines, results: ResultsState) -> BatchState:
        """The state in which they are to run."""
        is_retry = self._request.kind == "retry"
        before = self._request.state
        return BatchState(
            plan=plan,
            plan_end=len(self._again) if is_retry else plan.count,
            counts=self._counts,
            cost_usd=before.cost_usd,
            highest_usd=before.highest_usd,
            results=results,
            stop_before=(before.stop or before.stop_before) if is_retry else None,
            stop_before_words=(before.stop_words or before.stop_before_words) if is_retry else None,
        )

    def _runs_again(self, text: bytes) -> bool:
        row = ItemRow.model_validate_json(text)
        if self._request.kind == "retry":
            wanted = self._request.categories
            again = row.status == "failed" and (not wanted or (row.error is not None and row.error.category in wanted))
        else:
            again = row.status == "cancelled"
        if again:
            self._again.append(row.index)
            self._attempts.append(row.attempts)
        else:
            self._counts = self._counts.plus(row.status, row.rows or 0)
        return again
