"""Background work has a lower priority than the rest of the process."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from outlast.activities.outputs.writer import in_background
from tests.support.paths import ROOT


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows a niceness of threads")
async def test_threads_of_the_background_are_nicer_than_the_event_loop() -> None:
    before = niceness()
    found = await asyncio.gather(*(in_background(niceness) for _ in range(8)))
    assert set(found) == {min(19, before + 10)}
    assert niceness() == before
    assert await asyncio.to_thread(niceness) == before, "other threads are as they were"


_FORBIDDEN = """
import asyncio, os
def refuse(*_): raise PermissionError(1, "Operation not permitted")
os.setpriority = refuse
from outlast.activities.outputs.writer import in_background
print(asyncio.run(in_background(lambda: "stored")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows a niceness of threads")
def test_where_niceness_is_forbidden_the_work_is_done_all_the_same() -> None:
    """As under a filter of system calls; in a process of its own, whose threads are new."""
    done = subprocess.run([sys.executable, "-c", _FORBIDDEN], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "stored\n", done.stderr
    assert "Cannot lower the priority" in done.stderr


async def test_an_error_of_the_background_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_background(lambda: 1 // 0)
