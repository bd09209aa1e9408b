"""Children that die with the process that supervises them, even if it is killed with SIGKILL."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # prctl(2)

# Loaded before any fork: between fork and exec nothing may be imported.
_LIBC: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> Callable[[], None] | None:
    """Return the function that a child has to run before exec so that it dies with this process.

    The kernel ties the child to the thread that starts it (prctl(2), PR_SET_PDEATHSIG): start children from a thread
    that lives as long as the process, such as the main thread. None on other systems, where only an orderly stop ends
    the children.
    """
    if _LIBC is None:
        return None
    libc = _LIBC
    parent = os.getpid()

    def tie_to_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died between the fork and the call above
            os.kill(os.getpid(), signal.SIGKILL)

    return tie_to_parent
