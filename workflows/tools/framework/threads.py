"""Threads for functions that block: one daemon thread for each."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure

_MAX_THREADS = 500
_threads = threading.BoundedSemaphore(_MAX_THREADS)
"""Threads of functions in this process: a call that was cancelled frees its slot, and leaves its thread running."""


async def in_thread(name: str, function: Callable[[], Any]) -> Any:
    """Run `function` in its own daemon thread, and return its result.

    A thread of a pool could keep other tools waiting, and the process from ending: nothing can interrupt a thread.
    Raises `ToolFailure`, which is retried, while too many threads are running.
    """
    if not _threads.acquire(blocking=False):
        raise ToolFailure.of(
            ErrorCategory.CAPACITY,
            f"{_MAX_THREADS} functions are running in threads of this worker, the maximum. Cancelled calls count until "
            "their functions return.",
            hint="Give the functions' requests and waits time limits, or write them as `async def`.",
            retryable=True,
        )
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def finish(value: Any, error: BaseException | None) -> None:
        if ended.done():
            return  # cancelled
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except StopIteration as stopped:
            error = RuntimeError(f"the function raised {stopped!r}")  # a future takes no StopIteration
        except BaseException as raised:  # noqa: BLE001 (the caller's coroutine raises it)
            error = raised
        finally:
            _threads.release()
        with suppress(RuntimeError):  # the process is ending, and with it the loop
            loop.call_soon_threadsafe(finish, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await ended
