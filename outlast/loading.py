"""How a process loads modules: those of its start, and those that it needs later."""

import gc
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import RLock
from types import ModuleType
from typing import cast

_UNUSED = ("httpx._main",)
"""What libraries load on the way though only commands of their own need it, and do without when it is missing: httpx's
command line loads click, Pygments and a part of rich, which takes as long as all the rest of httpx."""
NOT_FOR_SERVERS = ("rich", "email_validator")
"""What a server's libraries load for the case that it is used: structlog for tracebacks in colours, FastAPI for the
address of a contact in an OpenAPI document. A server has neither, and starts sooner without."""
_one_thread = RLock()


@contextmanager
def loading(*, without: Iterable[str] = ()) -> Generator[None]:
    """Import modules in the block that stay: the search for garbage leaves them out, now and later.

    Packages of `without` are missing for what the block imports; unless they are loaded already.

    Searching while they are imported finds none, and takes a sixth of the time. One thread at a time may be in such a
    block: a package whose modules import each other is half loaded for the second of two threads. Costs nothing when
    everything is loaded already.
    """
    with _one_thread, _missing((*_UNUSED, *without)):
        known, searches = len(sys.modules), gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if len(sys.modules) != known:
                gc.freeze()
            if searches:
                gc.enable()


@contextmanager
def _missing(names: Iterable[str]) -> Generator[None]:
    """For an import, None in the place of a module says that there is none."""
    modules = cast(dict[str, ModuleType | None], sys.modules)
    left_out = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(left_out))
    try:
        yield
    finally:
        for name in left_out:
            if modules.get(name) is None:
                modules.pop(name, None)
