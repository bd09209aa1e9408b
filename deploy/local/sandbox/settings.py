"""Settings of the sandbox, chosen at its start."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SHIPPED_ACTORS = Path(__file__).resolve().parents[1] / "actors"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the sandbox; times in seconds, memory in megabytes. The flags of `__main__` have the same names."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8700
    token: str | None = None
    username: str = "sandbox"
    actor_dirs: Sequence[Path] = ()
    ships_actors: bool = True
    site_dir: Path | None = None
    in_process: Sequence[str] = ()
    memory_limit_mbytes: int = 8192
    max_concurrent_runs: int = 25
    graceful_abort_seconds: float = 30.0
    kill_after_seconds: float = 2.0
    webhook_retry_seconds: float = 1.0
    webhook_attempts: int = 11
    compute_unit_usd: float = 0.25
    log_format: str = "plain"

    @property
    def base_url(self) -> str:
        """URL at which clients and Actors reach this server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether a name or address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        with suppress(OSError):
            return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
        return False
