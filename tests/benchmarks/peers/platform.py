"""The sandbox platform of a peer: one process, whose Actor needs none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stacks.sandbox import Sandbox, running_sandbox

RUNS_AT_ONCE = 200


@contextmanager
def platform(folder: Path) -> Iterator[Sandbox]:
    """Serve it until the end of the block."""
    limits = ("--max-concurrent-runs", str(RUNS_AT_ONCE), "--memory-limit-mbytes", str(RUNS_AT_ONCE * 1024))
    with running_sandbox(folder, *limits) as sandbox:
        yield sandbox
