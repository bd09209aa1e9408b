"""The event loop of `async def` functions of tools, in a thread of its own.

A function that blocks it stalls neither the worker nor functions without `async`. A second thread notices, and names
the function.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from temporalio import activity

from outlast.workflows.contracts.tool_calls import Progress

_logger = logging.getLogger("outlast.worker")
_LOOK_SECONDS = 0.5
BLOCKED_SECONDS = 2.0
"""Time without a turn of the event loop after which it counts as blocked."""


@dataclass(frozen=True)
class _Running:
    """A function on the loop, and the receiver of its progress."""

    tool: str
    task_id: str
    report: Callable[[Progress], None]
    count: Callable[[int, dict[str, str]], None]


class FunctionsLoop:
    """The event loop, its thread, and the thread that watches it. Both end with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._running: dict[asyncio.Task[Any], _Running] = {}
        self._turned_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="tool-functions", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="tool-functions-watch", daemon=True).start()

    async def run(
        self, function: Coroutine[Any, Any, Any], tool: str, report: Callable[[Progress], None] = lambda _: None
    ) -> Any:
        """Return the function's result, or raise its exception. A cancellation is passed on, and awaited.

        `report` is called on the caller's event loop when the function has blocked this one.
        """
        caller = asyncio.get_running_loop()
        info = activity.info()
        counter = activity.metric_meter().create_counter(
            "outlast_blocked_function_loops", "Times that a function blocked the event loop of functions."
        )

        def shown(progress: Progress) -> None:
            caller.call_soon_threadsafe(report, progress, context=context)

        context = copy_context()
        running = _Running(tool, info.workflow_id or "", shown, counter.add)
        started: list[asyncio.Task[Any]] = []
        is_cancelled = threading.Event()

        async def run() -> tuple[Any, BaseException | None]:
            task = asyncio.current_task()
            assert task is not None
            started.append(task)
            self._running[task] = running
            if is_cancelled.is_set():  # before this loop had a turn for the function
                task.cancel()
            try:
                return await function, None
            except BaseException as error:  # noqa: BLE001 (raised on the caller's loop: here, sys.exit() would end this one)
                return None, error
            finally:
                del self._running[task]

        ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))
        try:
            value, error = await asyncio.shield(ended)
        except asyncio.CancelledError:
            if ended.cancelled():
                raise
            is_cancelled.set()
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])
            value, error = await asyncio.shield(ended)
        if error is not None:
            raise error
        return value

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._loop.is_closed():
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:  # of an asyncio task that a function has left behind
                _logger.exception("an asyncio task of a tool raised %s", type(error).__name__)

    def _watch(self) -> None:
        is_reported = False
        while True:
            self._loop.call_soon_threadsafe(self._turned)
            time.sleep(_LOOK_SECONDS)
            blocked = time.monotonic() - self._turned_at
            if blocked >= BLOCKED_SECONDS and not is_reported:
                self._report(blocked)
            is_reported = blocked >= BLOCKED_SECONDS

    def _turned(self) -> None:
        self._turned_at = time.monotonic()

    def _report(self, seconds: float) -> None:
        """Log which function holds the loop, with its stack, and show it in the function's task."""
        task = asyncio.current_task(self._loop)
        running = self._running.get(task) if task is not None else None
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)[-3:]) if frame is not None else ""
        tool = running.tool if running is not None else "an asyncio task of a tool"
        _logger.warning(
            "%s has blocked the event loop of functions for %.0f s, and other async functions wait. Write it as `def`, "
            "or await what blocks:\n%s",
            tool,
            seconds,
            stack,
            extra={"tool": tool, "task_id": running.task_id if running is not None else ""},
        )
        if running is not None:
            running.count(1, {"tool": tool})
            message = f"{tool} blocks the event loop. Its author has to write it as `def`, or await what blocks."
            running.report(Progress(done=0, message=message))
