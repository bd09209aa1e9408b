"""The same calls, made durable by Outlast and by its peers, one after the other on the same machine."""

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.peers import figures
from tests.benchmarks.peers.contract import CALLERS, Peer, Running
from tests.benchmarks.peers.dbos import DBOS_POSTGRES, DBOS_SQLITE
from tests.benchmarks.peers.fastmcp import FASTMCP
from tests.benchmarks.peers.figures import Figures, PeerFigures
from tests.benchmarks.peers.load import ROWS, Rate, milliseconds, percentile95, rate
from tests.benchmarks.peers.outlast import OUTLAST
from tests.benchmarks.peers.prefect import PREFECT
from tests.benchmarks.peers.restate import RESTATE
from tests.benchmarks.peers.survival import RUN_SECONDS, START_SECONDS, Survival, survival
from tests.benchmarks.report import Figure, Finding, Target, machine

PEERS = (OUTLAST, RESTATE, DBOS_POSTGRES, DBOS_SQLITE, FASTMCP, PREFECT)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 2
    """Each peer is called alone, once per round, in turns: forwards, then backwards. All kills come before."""
    warm_up: int = 15
    calls: int = 60
    seconds: float = 8
    killed_calls: int = 50
    patience_seconds: float = 450
    """The longest until a peer tries again: FastMCP's worker looks every 75 s or so for what nobody did for 300 s."""


_ALONE_SECONDS = 60

QUICK = Effort(rounds=1, warm_up=5, calls=20, seconds=3, killed_calls=10, patience_seconds=60)
"""To try a change of the benchmark; its figures mean little."""


@dataclass
class _Measured:
    taken: list[float] = field(default_factory=list[float])
    rates: list[Rate] = field(default_factory=list[Rate])
    survival: Survival | None = None


async def measure_peers() -> Finding:
    """All of them, and the committed figures anew. Raises `CannotRunError` before any when one cannot be installed."""
    found = await compare(PEERS, Effort())
    figures.write(found)
    return finding(found)


async def compare(peers: Sequence[Peer], effort: Effort) -> Figures:
    """Install and measure `peers`."""
    for peer in peers:
        peer.install()
    measured = {peer.name: _Measured() for peer in peers}
    alone = asyncio.Lock()
    survivals = await asyncio.gather(*(_survival(peer, effort, alone) for peer in peers))
    for peer, survived in zip(peers, survivals, strict=True):
        measured[peer.name].survival = survived
    before = [round(load, 1) for load in os.getloadavg()]
    for number in range(effort.rounds):
        for peer in peers if number % 2 == 0 else peers[::-1]:
            async with _running(peer, f"calls, round {number + 1}") as running:
                await _load(running, measured[peer.name], effort)
    return Figures(
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        load_average_before=before,
        setting={**asdict(effort), "callers": CALLERS, "start_seconds": START_SECONDS, "run_seconds": RUN_SECONDS},
        peers=tuple(_figures(peer, measured[peer.name]) for peer in peers),
    )


async def _survival(peer: Peer, effort: Effort, alone: asyncio.Lock) -> Survival:
    """Each peer has the machine alone until its calls have ended, or for a minute: who waits longer only waits."""
    await alone.acquire()
    async with _running(peer, "the kill") as running:
        order = survival(running, calls=effort.killed_calls, patience_seconds=effort.patience_seconds)
        waiting = asyncio.create_task(order)
        await asyncio.wait((waiting,), timeout=_ALONE_SECONDS)
        alone.release()
        return await waiting


@asynccontextmanager
async def _running(peer: Peer, what: str) -> AsyncGenerator[Running]:
    """A fresh start of the peer, in a folder of its own."""
    print(f"  {peer.name}: {what} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="outlast-peers-") as name:
        async with peer.running(Path(name)) as running:
            yield running


async def _load(running: Running, measured: _Measured, effort: Effort) -> None:
    dataset_id = running.sandbox.new_dataset(ROWS)
    measured.taken += await milliseconds(running, dataset_id, warm_up=effort.warm_up, calls=effort.calls)
    most = min((each.callers for each in measured.rates), default=CALLERS)
    measured.rates.append(await rate(running, dataset_id, seconds=effort.seconds, callers=most))


def _figures(peer: Peer, measured: _Measured) -> PeerFigures:
    assert measured.survival is not None
    fewest = min(each.callers for each in measured.rates)
    of_fewest = [each for each in measured.rates if each.callers == fewest]
    return PeerFigures(
        name=peer.name,
        versions=peer.versions(),
        front=peer.front,
        settings=peer.settings,
        recommended_by=peer.recommended_by,
        promises=peer.promises,
        median_ms=round(statistics.median(measured.taken), 2),
        percentile95_ms=round(percentile95(measured.taken), 2),
        callers=fewest,
        calls_per_second=round(statistics.mean(each.calls_per_second for each in of_fewest), 2),
        survival=measured.survival,
    )


def finding(found: Figures) -> Finding:
    """The same for the table of all benchmarks. Targets are Outlast's: nothing lost, nothing paid twice."""
    return Finding("peers", tuple(figure for peer in found.peers for figure in _shown(peer)), dict(found.setting))


def _shown(peer: PeerFigures) -> list[Figure]:
    none = Target("exactly", 0) if peer.name == OUTLAST.name else None
    name, survived = peer.name, peer.survival
    return [
        Figure(f"{name}: call, median", peer.median_ms, "ms"),
        Figure(f"{name}: call, 95th percentile", peer.percentile95_ms, "ms"),
        Figure(f"{name}: {peer.callers} callers", peer.calls_per_second, "calls/s"),
        Figure(f"{name}: completed after kill -9, of {survived.calls}", survived.completed, "calls"),
        Figure(f"{name}: failed or lost", survived.failed + survived.lost, "calls", none),
        Figure(f"{name}: paid twice", survived.started_twice, "calls", none),
        Figure(f"{name}: until the last completed", survived.seconds, "s"),
    ]
