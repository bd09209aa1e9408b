"""The big table's run, from its input to its last status message."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from apify import Actor

from .interruption import Interruption
from .rows import RowFactory
from .settings import InputError, Settings
from .sink import Batch, Sink, gather, open_sink

STATUS_INTERVAL_SECONDS = 1.0


@dataclass
class Progress:
    """Progress of the run."""

    settings: Settings
    started: float = field(default_factory=time.monotonic)
    rows: int = 0
    size_bytes: int = 0

    def add(self, batch: Batch) -> None:
        """Count a stored batch."""
        self.rows += batch.row_count
        self.size_bytes += batch.size_bytes

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self.started, 0.001)
        rows = f"{self.rows:,}" if self.settings.rows is None else f"{self.rows:,}/{self.settings.rows:,}"
        goal = "" if self.settings.target_bytes is None else f" of {self.settings.target_bytes / 1e6:,.1f}"
        megabytes = self.size_bytes / 1e6
        return f"Pushed {rows} rows, {megabytes:,.1f}{goal} MB ({megabytes / seconds:,.1f} MB/s)"


async def main() -> None:
    """Run the Actor once."""
    async with Actor:
        try:
            settings = Settings.parse(await Actor.get_input())
        except InputError as error:
            await Actor.fail(status_message=f"Invalid input: {error}")
            return
        with Interruption() as interruption:
            progress = await _make_table(settings, interruption)
        await Actor.set_value("OUTPUT", _output(progress, interruption.requested))
        prefix = f"{interruption.word}. " if interruption.requested else ""
        await Actor.exit(exit_code=interruption.exit_code, status_message=f"{prefix}{progress}")


async def _make_table(settings: Settings, interruption: Interruption) -> Progress:
    progress = Progress(settings)
    reporter = asyncio.create_task(_report(progress, interruption))
    # The run's `maxItems` limits the rows that the caller pays for.
    limits = [limit for limit in (settings.rows, Actor.configuration.max_paid_dataset_items) if limit is not None]
    rows = RowFactory.create(settings.seed, settings.profile).rows(min(limits, default=None))
    try:
        await _push_all(gather(rows, settings.target_bytes), open_sink(), progress, interruption)
    finally:
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)
    return progress


async def _push_all(batches: Iterator[Batch], push: Sink, progress: Progress, interruption: Interruption) -> None:
    """Push all batches. The next batch is made while one is sent, so that at most two are in memory."""
    batch = await asyncio.to_thread(next, batches, None)
    while batch is not None and not interruption.requested:
        following = asyncio.create_task(asyncio.to_thread(next, batches, None))
        await push(batch)
        progress.add(batch)
        batch = await following


async def _report(progress: Progress, interruption: Interruption) -> None:
    """Set the status message every second until cancelled."""
    while not interruption.requested:
        await Actor.set_status_message(str(progress))
        await interruption.wait(STATUS_INTERVAL_SECONDS)


def _output(progress: Progress, aborted: bool) -> dict[str, object]:
    return {
        "rows": progress.rows,
        "bytes": progress.size_bytes,
        "seconds": round(time.monotonic() - progress.started, 3),
        "seed": progress.settings.seed,
        "columns": progress.settings.profile,
        "aborted": aborted,
    }


if __name__ == "__main__":  # `python -m src`, with this Actor's folder as the working directory
    asyncio.run(main())
