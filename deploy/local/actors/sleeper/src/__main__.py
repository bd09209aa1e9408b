"""The sleeper's run, from its input to its last status message."""

import asyncio
import time
from datetime import UTC, datetime

from apify import Actor

from .interruption import Interruption
from .settings import InputError, Settings

PUSH_BATCH_BYTES = 4_000_000
ROW_OVERHEAD_BYTES = 200


async def main() -> None:
    """Run the Actor once."""
    async with Actor:
        try:
            settings = Settings.parse(await Actor.get_input())
        except InputError as error:
            await Actor.fail(status_message=f"Invalid input: {error}")
            return
        with Interruption() as interruption:
            await _run(settings, interruption)


async def _run(settings: Settings, interruption: Interruption) -> None:
    started = time.monotonic()
    pushed = await _sleep_in_steps(settings, interruption, started)
    slept = min(time.monotonic() - started, settings.seconds)
    await Actor.set_value("OUTPUT", _output(settings, slept, pushed, interruption.requested))
    if interruption.requested:
        await Actor.exit(
            exit_code=interruption.exit_code,
            status_message=f"{interruption.word} after {_in_seconds(slept)} of {_in_seconds(settings.seconds)} s",
        )
    elif settings.failure:
        await Actor.fail(exit_code=settings.failure.exit_code, status_message=settings.failure.message)
    else:
        await Actor.exit(status_message=_described(settings, settings.seconds))


async def _sleep_in_steps(settings: Settings, interruption: Interruption, started: float) -> int:
    """Sleep in steps; after each, report the progress and push its share of the rows. Return the rows pushed.

    Each step ends at a time fixed at the start, so that the duration of calls does not add up.
    """
    pushed = 0
    await Actor.set_status_message(_described(settings, 0))
    for step in range(1, settings.steps + 1):
        elapsed_at_end = settings.seconds * step / settings.steps
        if await interruption.wait(max(0.0, started + elapsed_at_end - time.monotonic())):
            break
        pushed = await _push_rows(settings, pushed, settings.rows * step // settings.steps, interruption)
        if step < settings.steps and settings.seconds > 0:
            await Actor.set_status_message(_described(settings, elapsed_at_end))
    return pushed


async def _push_rows(settings: Settings, first: int, end: int, interruption: Interruption) -> int:
    """Push the rows `first..end` in batches of a bounded size. Return the index after the last row pushed."""
    rows_per_batch = max(1, PUSH_BATCH_BYTES // (settings.row_bytes + ROW_OVERHEAD_BYTES))
    while first < end and not interruption.requested:
        batch_end = min(end, first + rows_per_batch)
        rows = [_row(settings, index) for index in range(first, batch_end)]
        await Actor.push_data(rows)  # pyright: ignore[reportUnknownMemberType]
        first = batch_end
    return first


def _row(settings: Settings, index: int) -> dict[str, object]:
    row: dict[str, object] = {
        "index": index,
        "message": settings.message,
        "seconds": settings.seconds,
        "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    if settings.row_bytes:
        row["payload"] = "z" * settings.row_bytes
    return row


def _output(settings: Settings, slept: float, pushed: int, aborted: bool) -> dict[str, object]:
    return {
        "sleptSeconds": round(slept, 3),
        "requestedSeconds": settings.seconds,
        "rows": pushed,
        "message": settings.message,
        "aborted": aborted,
    }


def _described(settings: Settings, slept: float) -> str:
    progress = f"Slept {_in_seconds(slept)} of {_in_seconds(settings.seconds)} s"
    return f"{progress}: {settings.message}" if settings.message else progress


def _in_seconds(seconds: float) -> str:
    """Format seconds without trailing zeros: `3`, `0.25`."""
    return f"{seconds:.2f}".rstrip("0").rstrip(".")


if __name__ == "__main__":  # `python -m src`, with this Actor's folder as the working directory
    asyncio.run(main())
