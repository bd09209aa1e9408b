"""One log file per process, rotated when a stack starts."""

from pathlib import Path

KEPT_LOGS = 5


def rotate(path: Path, kept: int = KEPT_LOGS) -> None:
    """Move `x.log` to `x.log.1`, that to `x.log.2`, and so on; what would become number `kept + 1` is dropped."""
    if not path.exists() or path.stat().st_size == 0:
        return
    for number in range(kept, 0, -1):
        older = numbered(path, number)
        newer = numbered(path, number - 1) if number > 1 else path
        if newer.exists():
            newer.replace(older)


def numbered(path: Path, number: int) -> Path:
    """Return where the `number`-th last log is kept."""
    return path.with_name(f"{path.name}.{number}")


def tail(path: Path, lines: int = 20, limit_bytes: int = 16 * 1024, start: int = 0) -> str:
    """Return the last lines of a log from byte `start` on, for an error message; empty when there are none."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - limit_bytes))
        text = log.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
