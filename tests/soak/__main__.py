"""`python -m tests.soak [--minutes N] [--seed N] [--table FILE]`: mixed load while everything is killed at random.

At its end every task is accounted for, runs equal tasks, the ledger equals what the platform has charged, memory and
disk are within bounds, and no alert has fired that should not have. The same seed makes the same calls and the same
mischief, in the same order; when each of them happens is up to the machine.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.benchmarks.report import Figure, Finding, machine, print_table
from tests.soak.checks import alert_figures, books_figures, load_figures, size_figures
from tests.soak.load import Load
from tests.soak.mischief import Mischief
from tests.soak.stack import SoakStack, running_soak_stack
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos

_LOOK_SECONDS = 1.0
_BEGIN, _END = "<!-- soak: begin -->", "<!-- soak: end -->"


async def soak(folder: Path, options: argparse.Namespace) -> tuple[Finding, Sequence[str]]:
    """Run it, and say what was found; the second value is what went wrong, in words."""
    watching = folder / "watching"
    outlast = folder / "outlast"
    for path in (watching, outlast):
        path.mkdir()
    with running_soak_stack(outlast, watching, watched=shutil.which("prometheus") is not None) as running:
        await running.sandbox.ready()
        await running.stack.bring_up()
        return await _soaked(running, options)


async def _soaked(running: SoakStack, options: argparse.Namespace) -> tuple[Finding, Sequence[str]]:
    running.stack.sandbox.limit(memoryMbytes=1_000_000, concurrentRuns=1_000)
    chaos = Chaos(running.stack)
    load, mischief = Load(chaos, options.seed), Mischief(running.stack, running.sandbox, options.seed)
    disk_before, memory, began = running.disk_bytes(), dict[str, float](), time.monotonic()
    end = began + options.minutes * 60
    looking = asyncio.create_task(_look(running, memory))
    await asyncio.gather(*(load.client(number, end) for number in range(options.clients)), mischief.go_on(end))
    looking.cancel()
    running.stack.sandbox.restore()
    await running.stack.bring_up()
    temporal = await connect(running.stack.temporal_server.address)
    books = await books_figures(chaos, temporal, load.outcome)
    alerts, wrong_alerts = alert_figures(running, time.monotonic() - began)
    tasks = int(next(figure.value for figure in books if figure.name == "tasks"))
    done = [Figure(name, number) for name, number in sorted(mischief.done.items())]
    sizes = size_figures(running, memory, disk_before, tasks)
    setting = {"minutes": options.minutes, "seed": options.seed, "clients": options.clients}
    await chaos.http.aclose()
    figures = (*load_figures(load.outcome), *done, *books, *sizes, *alerts)
    return Finding("soak", figures, setting), (*load.outcome.wrong, *wrong_alerts)


async def _look(running: SoakStack, memory: dict[str, float]) -> None:
    """Keep the most memory that each process has had."""
    while True:
        with suppress(psutil.NoSuchProcess):
            for name, mbytes in running.memory_mbytes().items():
                memory[name] = max(memory.get(name, 0.0), mbytes)
        await asyncio.sleep(_LOOK_SECONDS)


def table(finding: Finding) -> str:
    """What was found, as Markdown."""
    here, setting = machine(), finding.setting
    made = f"{setting['minutes']:g} minutes, {setting['clients']} clients, seed {setting['seed']}"
    lines = [
        f"{made}; {here['cores']} cores, {here['memory_gib']} GiB, {here['system']}, Python {here['python']}.",
        "",
        "| figure | value | target |",
        "|---|---|---|",
    ]
    for figure in finding.figures:
        value = f"{figure.value:,.0f}" if float(figure.value).is_integer() else f"{figure.value:,.2f}"
        verdict = "" if figure.target is None else f"{figure.target}{'' if figure.is_met else ', MISSED'}"
        lines.append(f"| {figure.name} | {value} {figure.unit} | {verdict} |".replace("  ", " "))
    return "\n".join(lines) + "\n"


def write_table(path: Path, text: str) -> None:
    """Write `text` between the marks of the file, or as a whole file where there are none."""
    page = path.read_text() if path.exists() else ""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    path.write_text(f"{before}{begin}\n{text}{end}{after}" if begin and end else text)


def main() -> int:
    """Exit code 0 when everything is as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="how long calls are made (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="what is called and broken (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=8, help="calls at once (default: %(default)s)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the figures to FILE as Markdown")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and databases")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="outlast-soak-"))
    try:
        finding, wrong = asyncio.run(soak(folder, options))
    finally:
        if options.keep:
            print(f"Logs and databases: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print_table([finding])
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    if options.table:
        write_table(options.table, table(finding))
    return 0 if finding.is_met else 1


if __name__ == "__main__":
    sys.exit(main())
