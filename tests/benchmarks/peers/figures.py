"""What was measured, as the committed file holds it: the tables of docs/performance.md come from it."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.benchmarks.peers.survival import Survival

FILE = Path(__file__).with_name("figures.json")


class PeerFigures(BaseModel):
    """One peer: what was run, and what it did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    versions: str
    front: str
    settings: str
    recommended_by: str
    promises: str
    median_ms: float
    percentile95_ms: float
    callers: int
    """64, or as many as it takes without failing a call."""
    calls_per_second: float
    """Of so many callers."""
    survival: Survival


class Figures(BaseModel):
    """One run of the benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    finished_at: str
    machine: dict[str, Any]
    load_average_before: list[float]
    """Of the calls."""
    setting: dict[str, float]
    peers: tuple[PeerFigures, ...]


def read() -> Figures:
    """The committed figures."""
    return Figures.model_validate_json(FILE.read_bytes())


def write(figures: Figures, path: Path = FILE) -> None:
    """What `read` reads."""
    path.write_text(figures.model_dump_json(indent=2) + "\n")
