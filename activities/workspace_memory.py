"""How much memory a process and all its descendants hold."""

import psutil


def memory_of(pid: int) -> int:
    """Resident bytes of `pid` and its descendants; of a process that has gone meanwhile, none."""
    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(map(_resident, processes))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0
