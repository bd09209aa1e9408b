"""Limits on what one account may use at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outlast.deploy.local.sandbox.http.errors import ApiError, invalid_parameter
from outlast.deploy.local.sandbox.runs.run_table import Run

MEMORY_CHOICES_MBYTES = tuple(2**power for power in range(7, 16))


@dataclass(slots=True)
class Limits:
    """Limits that apply to every user. The control API can change them while the sandbox runs."""

    memory_mbytes: int
    concurrent_runs: int

    def check(self, open_runs: Iterable[Run], user_id: str, memory_mbytes: int) -> None:
        """Raises `ApiError` 402 when one more run with this memory would exceed a limit."""
        own = [run for run in open_runs if run.user_id == user_id]
        used = sum(run.memory_mbytes for run in own)
        if used + memory_mbytes > self.memory_mbytes:
            raise ApiError(
                402,
                "actor-memory-limit-exceeded",
                f"By launching this job you will exceed the memory limit of {self.memory_mbytes}MB for all your Actor"
                f" runs and builds (currently used: {used}MB, requested: {memory_mbytes}MB).",
            )
        if len(own) >= self.concurrent_runs:
            raise ApiError(
                402,
                "concurrent-runs-limit-exceeded",
                f"By launching this job you will exceed the limit of {self.concurrent_runs} concurrent Actor runs.",
            )


def checked_memory(memory_mbytes: int) -> int:
    """Returns `memory_mbytes` if the platform offers this size. Raises `ApiError` 400 otherwise."""
    if memory_mbytes not in MEMORY_CHOICES_MBYTES:
        raise invalid_parameter(
            f"Memory must be a power of two from {MEMORY_CHOICES_MBYTES[0]} to {MEMORY_CHOICES_MBYTES[-1]} MB,"
            f" not {memory_mbytes}"
        )
    return memory_mbytes
