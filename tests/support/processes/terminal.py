"""Commands of a user, on a pseudo-terminal or in a shell beside a running service."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.stacks.service import Service

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class Terminal:
    """One running command; `screen` is everything it has written, as text."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._written = b""

    @property
    def raw(self) -> str:
        """With colours and cursor movements."""
        return self._written.decode(errors="replace")

    @property
    def screen(self) -> str:
        """Without colours and cursor movements; what was drawn over is still there."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def wait_for(self, pattern: str, timeout_seconds: float = 180) -> "re.Match[str]":
        """Return once the screen shows `pattern` (a regular expression)."""
        deadline = time.monotonic() + timeout_seconds
        while (match := re.search(pattern, self.screen)) is None:
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{pattern!r} does not appear:\n{self.screen[-3000:]}")
        return match

    def press_ctrl_c(self) -> None:
        """As the keyboard does: the terminal sends SIGINT to everything in its foreground."""
        os.write(self._descriptor, b"\x03")

    def type(self, text: str) -> None:
        """As fingers do: `text`, then Enter."""
        os.write(self._descriptor, f"{text}\n".encode())

    def end(self, timeout_seconds: float = 180) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + timeout_seconds
        while self._read():
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen[-3000:]}"
        return self.process.wait(timeout_seconds)

    def _read(self) -> bool:
        """Take what there is within a moment; False when the command has ended and all is read."""
        readable, _, _ = select.select([self._descriptor], [], [], 0.2)
        if not readable:
            return True
        try:
            chunk = os.read(self._descriptor, 65_536)
        except OSError:  # Linux says EIO when the other end is closed
            return False
        self._written += chunk
        return bool(chunk)


@contextmanager
def on_terminal(command: list[str], environment: Mapping[str, str], *, columns: int = 80) -> Iterator[Terminal]:
    """Run `command` on a terminal of its own; it is killed at the end of the block if it still runs."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**_without_size(environment), "TERM": "xterm-256color"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(terminal)
    try:
        yield Terminal(process, controller)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(controller)


def outlast_command(*arguments: str) -> list[str]:
    """The command line, in a process of its own."""
    return [sys.executable, "-m", "outlast.cli", *arguments]


def _without_size(environment: Mapping[str, str]) -> dict[str, str]:
    """The width is the terminal's own; a variable would win over it."""
    return {name: value for name, value in environment.items() if name not in {"COLUMNS", "LINES"}}


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    said: str


class Shell:
    """Where a user types."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.folder = folder
        self._url = service.api_url

    async def outlast(self, *arguments: str, typed: str = "") -> Ended:
        command: Sequence[str] = (sys.executable, "-m", "outlast.cli", *arguments, "--url", self._url)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=pipe)
        out, said = await process.communicate(typed.encode())
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), said.decode())
