"""A shell beside a running service, in which a user types `outlast` commands."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.stacks.service import Service


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
