"""`make bench ARGS=processes`: throughput of several workers and API processes on one server, and a kill of each."""

from tests.benchmarks.processes.kills import SLEEPER, measured_kills
from tests.benchmarks.processes.throughput import measured_throughput
from tests.benchmarks.report import Finding
from tests.benchmarks.system import running_system

_RUNS_AT_ONCE = 100


async def measure_processes() -> Finding:
    """Both on stacks of their own."""
    async with running_system() as system:
        throughput = await measured_throughput(system)
    async with running_system(in_process=(SLEEPER,), runs_at_once=_RUNS_AT_ONCE) as system:
        kills = await measured_kills(system)
    return Finding("processes", (*throughput, *kills), {"callers": 64})
