"""`python -m tests.benchmarks.peers.table`: the tables of peers in docs/performance.md, from the committed figures.

`make docs` runs it. The tables are between two comments, and a test compares them.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks.peers.contract import CALLERS
from tests.benchmarks.peers.figures import Figures, PeerFigures, read
from tests.support.paths import ROOT

_BEGIN = "<!-- from tests/benchmarks/peers/figures.json: make docs -->"
_END = "<!-- end of what is from figures.json -->"
_BETWEEN = re.compile(f"(?<={re.escape(_BEGIN)}\n).*?(?={re.escape(_END)})", re.DOTALL)


def performance(figures: Figures) -> str:
    """Return all tables."""
    killed = ("`kill -9`: completed", "failed or lost", "paid twice", "last one after")
    head = _head("", "call, median", "95th percentile", f"{CALLERS} callers", *killed)
    rows = map(_performance_row, figures.peers)
    ran = (*_head("", "promise", "versions", "recommended configuration"), *map(_what_ran_row, figures.peers))
    return _section(figures, (*head, *rows), ran)


PAGES: Mapping[Path, Callable[[Figures], str]] = {
    ROOT / "docs" / "performance.md": performance,
}


def rewritten(page: str, table: str) -> str:
    """The page with `table` where the table of peers stands. Raises `ValueError` when it has no place for one."""
    if len(_BETWEEN.findall(page)) != 1:
        raise ValueError(f"one table must stand between {_BEGIN} and {_END}")
    return _BETWEEN.sub(lambda _: table, page)


def _section(figures: Figures, *tables: tuple[str, ...]) -> str:
    day, load = figures.finished_at[:10], figures.load_average_before[0]
    cores, memory = figures.machine["cores"], figures.machine["memory_gib"]
    where = f"Measured on {day} with {cores} cores and {memory} GiB of memory; load average before it {load:g}."
    return "\n\n".join(("", where, *("\n".join(table) for table in tables), ""))[1:]


def _performance_row(peer: PeerFigures) -> str:
    survival = peer.survival
    completed, last = f"{survival.completed} of {survival.calls}", f"{survival.seconds:.0f} s"
    cells = (peer.name, _ms(peer.median_ms), _ms(peer.percentile95_ms), _rate(peer), completed)
    return _row(*cells, str(survival.failed + survival.lost), str(survival.started_twice), last)


def _what_ran_row(peer: PeerFigures) -> str:
    """What it was, so that a reader can repeat it and object."""
    page = peer.recommended_by
    configuration = f"[{peer.front}; {peer.settings}]({page.removeprefix('docs/')})"
    return _row(peer.name, peer.promises, peer.versions, configuration)


def _rate(peer: PeerFigures) -> str:
    rate = f"{peer.calls_per_second:.0f}" if peer.calls_per_second >= 10 else f"{peer.calls_per_second:.1f}"
    return f"{rate} calls/s" + ("" if peer.callers == CALLERS else f" with {peer.callers} callers, its maximum")


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 20 else f"{value:.1f} ms"


def _head(*names: str) -> tuple[str, str]:
    return _row(*names).replace("|  |", "| |"), f"|{'---|' * len(names)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the tables into their pages."""
    figures = read()
    for page, table in PAGES.items():
        page.write_text(rewritten(page.read_text(), table(figures)))


if __name__ == "__main__":
    main()
