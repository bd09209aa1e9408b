"""MCP servers that are processes of this worker: each in its own process group, and never left behind.

A server's group ends with its session. If this worker is killed, one `/bin/sh` that reads from a pipe of the worker
ends all groups: the kernel closes the pipe whatever the worker died of.
"""

import asyncio
import logging
import os
import resource
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure, without_credentials
from outlast.activities.mcp_servers.config import StdioServer
from outlast.activities.unicode_text import valid_json_text

_log = logging.getLogger("outlast.mcp_servers")
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_LOG_LINE_BYTES = 4_000
_INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
"""Variables of the worker that servers get: the user, and the way out of the network, without which `uvx` and `npx` can
download nothing. Everything else, such as secrets, they get from the file alone.
"""
_MAX_NOISE_LINES = 100
"""Lines on standard output that are no messages. A server that writes more is ended."""
_MESSAGES_PER_SECOND = 200.0
_LOG_LINES_PER_SECOND = 20.0
_FLOOD_PAUSE_SECONDS = 0.005
_EXIT_SECONDS = 2.0
"""Time to exit after its standard input was closed, and again after SIGTERM."""
_LIMITS: Final = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 4_096,
    resource.RLIMIT_DATA: 8 * 1024**3,
}
"""Of each process of a server: no core dumps, open files, bytes of memory of its own."""

_SHELL = "/bin/sh"
_GUARD = """
trap '' INT TERM HUP
groups=
while read -r change group; do
  rest=
  for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
  groups=$rest
  [ "$change" = - ] || groups="$groups $group"
done
for one in $groups; do kill -TERM -- "-$one" 2>/dev/null; done
[ -z "$groups" ] || sleep 1
for one in $groups; do kill -KILL -- "-$one" 2>/dev/null; done
"""


class ProcessGuard:
    """Ends the process groups of this worker when the worker is dead. One small process, started when it is needed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._groups = set[int]()
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the guard, or another one for a guard that was killed."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            self._process = await asyncio.create_subprocess_exec(
                _SHELL,
                "-c",
                _GUARD,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
            for group in self._groups:
                self._tell("+", group)

    def add(self, group: int) -> None:
        """End this process group with the worker."""
        self._groups.add(group)
        self._tell("+", group)

    def remove(self, group: int) -> None:
        """Forget a group that has ended."""
        self._groups.discard(group)
        self._tell("-", group)

    async def close(self) -> None:
        """End the guard, and the groups that are left."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    def _tell(self, change: str, group: int) -> None:
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(f"{change} {group}\n".encode())


@asynccontextmanager
async def stdio_transport(
    server: StdioServer, guard: ProcessGuard, has_ended: Callable[[], None]
) -> AsyncGenerator[Any]:
    """Run the server, and provide the streams of messages that the SDK's session needs. Calls `has_ended` when the
    server closes its standard output.

    Raises `ToolFailure` if the process cannot be started.
    """
    await guard.start()
    process = await _started(server)
    guard.add(process.pid)
    incoming_writer, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_reader = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_messages, server.name, process, incoming_writer, has_ended)
            group.start_soon(_write_messages, process, outgoing_reader, incoming_writer)
            group.start_soon(_log_errors, server, process)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await outgoing.aclose()
                    await _end(process)
                group.cancel_scope.cancel()
    finally:
        _kill_group(process.pid, signal.SIGKILL)
        # A pipe from which nobody reads to its end, or that a process outside of the group has, would stay open.
        transport: Any = process._transport  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]  # asyncio offers no other way
        transport.close()
        guard.remove(process.pid)
        for stream in (incoming_writer, incoming, outgoing, outgoing_reader):
            stream.close()


def environment_of(server: StdioServer) -> dict[str, str]:
    """Return the variables of the server's process."""
    inherited = {name: value for name in _INHERITED if (value := os.environ.get(name)) is not None}
    return {**inherited, **server.env}


async def _started(server: StdioServer) -> asyncio.subprocess.Process:
    try:
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment_of(server),
            cwd=server.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # The message of the exception may contain arguments.
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        missing = isinstance(error, FileNotFoundError) and not server.cwd.is_dir()
        what = "its folder does not exist" if missing else f"its program cannot be run ({reason})"
        raise ToolFailure.of(
            ErrorCategory.FILESYSTEM,
            f"The MCP server {server.name} cannot be started: {what}.",
            "The operator can correct `command` and `cwd` in the file of MCP servers.",
        ) from None
    _limit(process.pid)
    return process


def _limit(pid: int) -> None:
    """Limit the process, and those that it starts. Only Linux can limit another process."""
    set_limit: Callable[..., Any] | None = getattr(resource, "prlimit", None)
    if set_limit is None:
        return
    for kind, most in _LIMITS.items():
        with suppress(OSError, ValueError):
            _, hard = set_limit(pid, kind)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            set_limit(pid, kind, (least, least))


class Pace:
    """A bucket of tokens. A server that writes without end must not occupy the worker, which serves others, too."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._credit, self._at = float(burst), clock()

    def wait_seconds(self) -> float:
        """Take a token, and return how long to wait for it: 0 within the burst."""
        self._refill()
        self._credit -= 1
        return max(0.0, -self._credit / self._per_second)

    def has_token(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        has_one = self._credit >= 1
        self._credit -= has_one
        return has_one

    def _refill(self) -> None:
        now = self._clock()
        self._credit = min(self._burst, self._credit + (now - self._at) * self._per_second)
        self._at = now


async def _read_messages(
    server: str, process: asyncio.subprocess.Process, received: Any, has_ended: Callable[[], None]
) -> None:
    assert process.stdout is not None
    pace, noise = Pace(_MESSAGES_PER_SECOND, burst=1_000), 0
    async with received:
        with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            try:
                async for line in _lines(process.stdout):
                    # The server waits meanwhile, when its pipe is full.
                    await asyncio.sleep(pace.wait_seconds())
                    if (message := _message_of(line)) is not None:
                        await received.send(message)
                    elif line.strip():
                        # A server that prints something else, such as a banner, works with other clients as well.
                        noise += 1
                        if noise == 1:
                            _log.warning("The MCP server %s writes lines that are no messages", server)
                        if noise > _MAX_NOISE_LINES:
                            _log.error(
                                "The MCP server %s is ended: it writes too many lines that are no messages", server
                            )
                            break
            except ValueError:
                _log.error("The MCP server %s sent more than %d bytes in a line", server, _MAX_MESSAGE_BYTES)
    has_ended()


async def _lines(stream: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Yield the lines of `stream`. Raises `ValueError` for one that is too long.

    `StreamReader.readline` would need a buffer for two of the longest lines, which a server that is read slowly fills.
    """
    begun = bytearray()
    while chunk := await stream.read(_CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            yield bytes(begun + end)
            begun.clear()
        begun += rest
        if len(begun) > _MAX_MESSAGE_BYTES:
            raise ValueError
    if begun:
        yield bytes(begun)


def _message_of(line: bytes) -> SessionMessage | None:
    try:
        text = valid_json_text(line)
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        return None


async def _write_messages(process: asyncio.subprocess.Process, sent: Any, received: Any) -> None:
    assert process.stdin is not None
    try:
        async with sent:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        # The session sees the end of the connection, and not a request that is never answered.
        await received.aclose()


async def _log_errors(server: StdioServer, process: asyncio.subprocess.Process) -> None:
    """Log the standard error of the server, line by line. Of too many lines, some are left out: a server that waits
    until its lines are read would answer no calls.
    """
    assert process.stderr is not None
    buffered, left_out, pace = b"", 0, Pace(_LOG_LINES_PER_SECOND, burst=200)
    while True:
        with suppress(OSError):
            chunk = await process.stderr.read(4_096)
            *lines, buffered = (buffered + chunk).split(b"\n")
            if not chunk or len(buffered) > _MAX_LOG_LINE_BYTES:
                lines, buffered = [*lines, buffered], b""
            for line in lines:
                if not pace.has_token():
                    left_out += 1
                    continue
                if left_out:
                    _log.warning("MCP server %s: %d lines of its standard error were left out", server.name, left_out)
                    left_out = 0
                if text := without_credentials(server.inserted.hide(_line(line))):
                    _log.info("MCP server %s: %s", server.name, text)
            if chunk:
                await asyncio.sleep(_FLOOD_PAUSE_SECONDS if left_out else 0)
                continue
        return


def _line(line: bytes) -> str:
    return line[:_MAX_LOG_LINE_BYTES].decode(errors="replace").strip()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the server as the protocol says: close its input, wait, then signal its group."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_exited(process):
        _kill_group(process.pid, signal.SIGTERM)
        if not await _has_exited(process):
            _kill_group(process.pid, signal.SIGKILL)
            await _has_exited(process)


async def _has_exited(process: asyncio.subprocess.Process) -> bool:
    """Wait for the process. `Process.wait` would also wait for others that have its pipes."""
    deadline = anyio.current_time() + _EXIT_SECONDS
    while process.returncode is None and anyio.current_time() < deadline:
        await anyio.sleep(0.01)
    return process.returncode is not None


def _kill_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
