"""The lock file with the pins of MCP servers, as `outlast servers pin` and `approve` read and write it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from outlast.activities.mcp_servers.pins import (
    LockFileError,
    PinChange,
    ServerPin,
    changes_of,
    lock_path,
    read_lock,
    write_lock,
)
from outlast.cli.options import CliError, ExitCode
from outlast.cli.runner import Context
from outlast.cli.stack_options import servers_file_of
from outlast.client import errors


@dataclass(frozen=True, slots=True)
class PinState:
    """A server beside its record in the lock file."""

    state: Literal["new", "unchanged", "changed", "failed"]
    """`new`: it has no record. `failed`: it cannot be listed."""
    listed: ServerPin | None = None
    pinned: ServerPin | None = None
    changes: tuple[PinChange, ...] = ()
    error: str | None = None

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        changes = [change.model_dump(mode="json") for change in self.changes]
        return {"state": self.state, "changes": changes, **({"error": self.error} if self.error else {})}


@dataclass(frozen=True, slots=True)
class OwnLockFile:
    """The lock file on this machine. Methods raise `CliError`."""

    path: Path

    @classmethod
    def of(cls, context: Context, servers_file: Path | None) -> Self:
        """Return the lock file of a servers file, by default of the one of the stack that runs here."""
        file = servers_file_of(servers_file, context.options.data_dir)
        if file is None:
            raise CliError(
                "The lock file is beside the servers file, and none is named.",
                exit_code=ExitCode.USAGE,
                hint="Name it with --mcp-servers FILE, or OUTLAST_MCP_SERVERS_FILE.",
            )
        return cls(lock_path(file))

    async def state(self, context: Context, name: str) -> PinState:
        """Compare a server with its record."""
        try:
            found = await context.client.server_pin(name)
        except errors.Unavailable as error:
            return PinState("failed", error=error.message)
        listed, pinned = ServerPin.model_validate(found.listed), self._read().get(name)
        if pinned is None:
            return PinState("new", listed)
        changes = changes_of(pinned, listed)
        return PinState("changed" if changes else "unchanged", listed, pinned, changes)

    def write(self, pins: Mapping[str, ServerPin]) -> None:
        """Set the records of these servers."""
        try:
            write_lock(self.path, {**self._read(), **pins})
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise CliError(f"{self.path} cannot be written: {reason}.", exit_code=ExitCode.FAILED) from None

    def _read(self) -> dict[str, ServerPin]:
        try:
            return read_lock(self.path) or {}
        except LockFileError as error:
            raise CliError(f"{error}.", exit_code=ExitCode.FAILED, hint="Restore it from its last commit.") from None
