"""Stop conditions of runs, checked while a run is followed. All checked numbers only grow (rows, matching rows, cost),
so a worker that checks again comes to the same result. Only the number of rows already read is recorded, to save
reading them again.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from temporalio import activity

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure, classify, redact
from outlast.activities.failures.exceptions import OutputError
from outlast.activities.outputs.dataset_source import GrowingDataset, RowBatch
from outlast.activities.outputs.jmespath_client import MAX_JSON_BYTES, expressions
from outlast.activities.outputs.jmespath_process import Query
from outlast.activities.runs.contracts import RunState, Until, UntilMet, UntilProgress

_BATCHES_PER_ROUND = 32
"""Of a megabyte each. More rows are judged after the next poll; each round has its own process, whose
CPU time is limited."""
PROCESSES_AT_ONCE = 4
"""That evaluate expressions, for all runs that one worker follows."""
_MOST_FAILURES = 3
_SETTLE_PROBES = 6
_SETTLE_PAUSE_SECONDS = 0.5
"""Rows that were seen before may not be shown by the next replica for a few seconds."""


class StopCondition:
    """Judges one run by its `until`."""

    def __init__(self, client: "apify.ApifyClientAsync", until: Until, places: asyncio.Semaphore) -> None:
        """Go on where the previous attempt of the activity was. `places` are those of processes."""
        self._client = client
        self._until = until
        self._places = places
        self._failures = 0
        self._counted = 0
        self.met: UntilMet | None = None
        self.progress = _progress_of_previous_attempt()

    async def judge(self, state: RunState) -> UntilMet | None:
        """The condition that the run meets, if any; it does not change afterwards. While the platform does not show its
        rows, none of them counts. Raises `ToolFailure` for an expression that takes too much time or memory.
        """
        if self.met is None:
            self.met = self._by_cost(state) or await self._by_rows(state)
        return self.met

    async def judge_end(self, state: RunState) -> UntilMet | None:
        """Return the same of a run that has ended, when all of its rows can be read."""
        for probe in range(_SETTLE_PROBES):
            if probe:
                await asyncio.sleep(_SETTLE_PAUSE_SECONDS)
            if await self.judge(state) is not None:
                break
        return self.met

    def _by_cost(self, state: RunState) -> UntilMet | None:
        cost = state.usage_total_usd
        if self._until.usd is None or cost is None or cost < float(self._until.usd):
            return None
        return UntilMet(condition="usd", usd=cost)

    async def _by_rows(self, state: RunState) -> UntilMet | None:
        until = self._until
        if until.rows is None and until.expression is None:
            return None
        dataset = GrowingDataset(self._client, state.dataset_id, offset=self.progress.offset)
        try:
            if until.expression is not None:
                await self._match_new_rows(dataset, until.expression)
            else:
                await dataset.count()
            self._failures = 0
        except OutputError as error:
            self._note_failure(error)
        except Exception as error:
            envelope = classify(error)
            # A dataset that was just created may not be readable yet; one that is gone will not be.
            if not envelope.retryable and envelope.category is not ErrorCategory.NOT_FOUND:
                raise
            activity.logger.info("Cannot evaluate the rows of run %s: %s", state.run_id, redact(repr(error)))
        self._counted = max(self._counted, dataset.counted, self.progress.offset)
        if until.expression is not None and self.progress.matches >= until.matches:
            return UntilMet(condition="expression", rows=self._counted, matches=self.progress.matches)
        if until.rows is not None and self._counted >= until.rows:
            return UntilMet(condition="rows", rows=self._counted)
        return None

    async def _match_new_rows(self, dataset: GrowingDataset, expression: str) -> None:
        async with aclosing(dataset.new_rows()) as batches:
            first = await anext(batches, None)
            if first is None:
                return
            async with self._places, expressions(Query(expression, None, max_bytes=0)) as evaluator:
                async for batch in _some_of(first, batches):
                    answer = await evaluator.evaluate(batch.lines) if len(batch.lines) <= MAX_JSON_BYTES else {}
                    found: list[Any] = answer.get("found", [])
                    matches = self.progress.matches + len(found)
                    self.progress = UntilProgress(offset=dataset.offset, matches=matches)
                    if matches >= self._until.matches:
                        return

    def _note_failure(self, error: OutputError) -> None:
        """An expression may be slow because the worker is. One that fails again and again is too expensive."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            envelope = error.envelope()
            message = f"options.until.expression: {envelope.message}"
            raise ToolFailure(envelope.model_copy(update={"message": message})) from None


async def _some_of(first: RowBatch, rest: AsyncGenerator[RowBatch]) -> AsyncGenerator[RowBatch]:
    yield first
    for _ in range(_BATCHES_PER_ROUND - 1):
        batch = await anext(rest, None)
        if batch is None:
            return
        yield batch


def _progress_of_previous_attempt() -> UntilProgress:
    details = activity.info().heartbeat_details
    return UntilProgress.model_validate(details[1]) if len(details) > 1 else UntilProgress()
