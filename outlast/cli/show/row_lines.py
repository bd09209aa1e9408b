"""Rows of a task on standard output, one line of JSON each, as they come."""

import asyncio
from contextlib import suppress

from outlast.cli.running import Context
from outlast.cli.show.follow_task import show_progress
from outlast.client import Conflict, Task, TaskRow


async def print_rows(context: Context, task_id: str, *, after: str | None, follow: bool) -> None:
    """Print the rows after the one with id `after`; with `--json` each with its id."""
    async with context.client.rows(task_id, after=after, follow=follow) as rows:
        async for row in rows:
            context.output.line(_line(row, with_id=context.output.as_json))


async def print_rows_beside_progress(context: Context, task: Task) -> None:
    """Print the rows of a task to the end, and on a terminal that does not show them how far it is."""
    printing = _print_any_rows(context, task.id)
    output = context.output
    if output.as_json or not output.is_live or output.out.file.isatty() or task.finished_at is not None:
        await printing
        return
    await asyncio.gather(printing, show_progress(context, task))


async def _print_any_rows(context: Context, task_id: str) -> None:
    with suppress(Conflict):  # It has none: its answer says why.
        await print_rows(context, task_id, after=None, follow=True)


def _line(row: TaskRow, *, with_id: bool) -> object:
    return row.document() if with_id else row.data
