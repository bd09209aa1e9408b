"""`python -m tests.benchmarks [NAME ...] [--items N] [--json FILE] [--check | --accept]`: measure, and print a table.

It fails when a target is missed; with `--check` when a ratio is worse than accepted, see `tests.benchmarks.guard`.
"""

import argparse
import asyncio
import gc
import os
import resource
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks import guard
from tests.benchmarks.actor_call import measure_actor_call
from tests.benchmarks.aging.aging import measure_aging
from tests.benchmarks.attack import measure_attack
from tests.benchmarks.batches.kills import measure_batch_kills, measure_cancelled_batch_kills
from tests.benchmarks.batches.quick_items import measure_quick_items
from tests.benchmarks.conversations.growth import measure_conversation
from tests.benchmarks.dataset_read import measure_latency, measure_throughput
from tests.benchmarks.flood import measure_flood
from tests.benchmarks.gateway.added import measure_gateway
from tests.benchmarks.gateway.compared import measure_gateways
from tests.benchmarks.handoffs import measure_handoffs
from tests.benchmarks.hostile_bodies import measure_hostile_bodies
from tests.benchmarks.large_output import measure_large_output
from tests.benchmarks.peers.benchmark import measure_peers
from tests.benchmarks.processes.processes import measure_processes
from tests.benchmarks.processor_time import measure_processor_time
from tests.benchmarks.receivers import measure_receivers
from tests.benchmarks.report import CannotRunError, Figure, Finding, Target, print_figures, print_table, write_json
from tests.benchmarks.starts.start import measure_start
from tests.benchmarks.starts.takeover import measure_takeover
from tests.benchmarks.tools_list import measure_tools_list
from tests.benchmarks.waiting import measure_waiting

BENCHMARKS: Mapping[str, Callable[[], Awaitable[Finding]]] = {
    "latency": measure_latency,
    "throughput": measure_throughput,
    "processor-time": measure_processor_time,
    "actor-call": measure_actor_call,
    "large-output": measure_large_output,
    "tools-list": measure_tools_list,
    "waiting": measure_waiting,
    "start": measure_start,
    "takeover": measure_takeover,
    "gateway": measure_gateway,
    "handoffs": measure_handoffs,
    "conversation": measure_conversation,
    "hostile-bodies": measure_hostile_bodies,
    "attack": measure_attack,
    "flood": measure_flood,
    "receivers": measure_receivers,
    "aging": measure_aging,
    "processes": measure_processes,
    "peers": measure_peers,
    "gateways": measure_gateways,
    "batch": measure_quick_items,
    "batch-kills": measure_batch_kills,
    "batch-cancel-kills": measure_cancelled_batch_kills,
}
ON_REQUEST = frozenset(
    {"aging", "gateway", "gateways", "processes", "peers", "receivers", "batch-kills", "batch-cancel-kills"}
)
"""Run only when they are named: they take long, and `peers` and `gateways` install other products."""
SIZED: Mapping[str, Callable[[int], Awaitable[Finding]]] = {
    "handoffs": measure_handoffs,
    "receivers": measure_receivers,
    "batch": measure_quick_items,
    "batch-kills": measure_batch_kills,
    "batch-cancel-kills": measure_cancelled_batch_kills,
}
"""Those whose number of items may be given."""


async def run(names: list[str], items: int | None = None) -> list[Finding]:
    """Run the benchmarks one after the other, each on a stack of its own; with `items`, those that have a size."""
    findings: list[Finding] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        findings.append(await _run(name, items))
        print_figures(findings[-1])
    return findings


async def _run(name: str, items: int | None) -> Finding:
    """One that breaks is a target missed; the others still have their figures."""
    try:
        return await (BENCHMARKS[name]() if items is None or name not in SIZED else SIZED[name](items))
    except CannotRunError as error:
        print(error, file=sys.stderr)
    except Exception:  # noqa: BLE001  # whatever it is, it is shown and the exit code says it
        traceback.print_exc()
    return Finding(name, (Figure("ran to its end", 0, "", Target("exactly", 1)),))


def main() -> int:
    """Exit code 0 when every target was met, or with `--check` when nothing is worse than accepted; else 1."""
    options = _options()
    accepted = guard.read_accepted(guard.ACCEPTED)
    _raise_file_limit()
    held = [name for name in accepted if name not in ON_REQUEST] if options.check else []
    names = options.names or held or [name for name in BENCHMARKS if name not in ON_REQUEST]
    findings = asyncio.run(run(names, options.items))
    print_table(findings)
    if options.json:
        write_json(findings, options.json)
    if options.check:
        return _checked(findings, accepted)
    if options.accept:
        guard.write_accepted(guard.accept(findings, accepted), guard.ACCEPTED)
    return 0 if all(finding.is_met for finding in findings) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    default = f"default all but {', '.join(sorted(ON_REQUEST))}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(BENCHMARKS)}; {default}")
    parser.add_argument("--items", type=int, metavar="N", help=f"the size of {', '.join(SIZED)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    against = parser.add_mutually_exclusive_group()
    against.add_argument("--check", action="store_true", help="fail when a ratio is worse than the accepted one")
    against.add_argument("--accept", action="store_true", help=f"write the ratios into {guard.ACCEPTED.name}")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    return options


def _checked(findings: Sequence[Finding], accepted: guard.Accepted) -> int:
    """Times depend on the machine, so their targets are only shown; what must be exact must be so everywhere."""
    comparisons = guard.compare(findings, accepted)
    guard.print_comparisons(comparisons)
    figures = (figure for finding in findings for figure in finding.figures)
    wrong = any(not figure.is_met and figure.target and figure.target.bound == "exactly" for figure in figures)
    return 1 if wrong or any(comparison.is_failure for comparison in comparisons) else 0


def _raise_file_limit() -> None:
    """Thousands of callers are thousands of connections; the common default is 1,024 files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    # The SDK's runtime threads may abort at interpreter exit (a known race).
    os._exit(code)
