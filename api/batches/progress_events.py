"""The progress of a batch as events: its state, whenever it has changed, until it has ended."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime

from outlast.api.errors import TemporalUnavailable
from outlast.api.temporal.looks import DESCRIPTIONS
from outlast.contracts.batches import Batch
from outlast.contracts.events import BatchEvent
from outlast.workflows.batches.contracts import BatchStatus

_LOOK_SECONDS = 1.0


async def progress_events(batch: Batch, look: Callable[[], Awaitable[Batch]]) -> AsyncGenerator[BatchEvent]:
    """`batch`, then what `look` finds changed, a second apart at least; the last event is `ended`.

    Silent while Temporal is away. Raises what else `look` raises.
    """
    shown: Batch | None = None
    with DESCRIPTIONS.follower():
        while batch.status is BatchStatus.WORKING:
            if batch != shown:
                shown = batch
                yield _event("progress", batch)
            await asyncio.sleep(DESCRIPTIONS.pause_seconds(_LOOK_SECONDS))
            try:
                batch = await look()
            except TemporalUnavailable:
                continue
    yield _event("ended", batch)


def _event(name: str, batch: Batch) -> BatchEvent:
    data = batch.model_dump(mode="json", exclude_none=True)
    return BatchEvent.model_validate({"name": name, "time": datetime.now(UTC), "data": data})
