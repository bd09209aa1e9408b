"""How a process loads modules: those of its start, and those that it needs later."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock

_one_thread = RLock()


@contextmanager
def loading() -> Generator[None]:
    """Import modules in the block that stay: the search for garbage leaves them out, now and later.

    Searching while they are imported finds none, and takes a sixth of the time. One thread at a time may be in such a
    block: a package whose modules import each other is half loaded for the second of two threads. Costs nothing when
    everything is loaded already.
    """
    with _one_thread:
        known, searches = len(sys.modules), gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if len(sys.modules) != known:
                gc.freeze()
            if searches:
                gc.enable()
