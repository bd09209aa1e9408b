"""Threads for work that keeps a processor busy: they give way to the event loop, and to other processes."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

log = logging.getLogger("outlast.outputs")

_ADDED_NICENESS = 10
"""As nice(1) adds by default: a tenth of the processor time of others, when there is not enough for all."""


async def in_background(work: Callable[[], Result]) -> Result:
    """The result of `work`, which should run without the interpreter's lock for most of its time."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def _give_way() -> None:
    # On Linux a thread has a niceness of its own; elsewhere it is that of the process, event loop included.
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    try:
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _ADDED_NICENESS))
    except OSError as error:
        # A filter of system calls may forbid it. An error here would end the pool, and with it all storing.
        log.warning("Storing cannot give way to other work here: %s", error)


_threads = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="background", initializer=_give_way)
"""No more than processors: more would not be faster, and each has memory of its own."""
