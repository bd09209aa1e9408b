"""Runs commands in a bubblewrap sandbox (bwrap(1)): separate namespaces, no network, a read-only
system, and a filter of system calls.

A command sees the system's programs and its workspace, but no other file, process or environment variable of the
machine. A worker that runs as root runs the command as an unprivileged user. All processes of a command are in one PID
namespace, which ends with its first process: none outlives the command, its timeout or its worker.

The system calls that are denied to a command in its sandbox, as a filter for seccomp(2) in classic BPF. The
namespaces already remove the effects of most; the filter removes kernel code in which most escapes from containers were
found. A denied call fails with EPERM.
"""

import asyncio
import errno
import os
import platform
import shutil
import signal
import struct
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.workspaces.activities import WORKSPACE, CommandInput, CommandOutcome, WorkspaceOwner, Workspaces

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in `struct seccomp_data`; of an argument, its lower half on little-endian machines."""

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET (linux/sched.h)."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Type into, and paste into, the terminal of another program."""
_X32 = 0x40000000

# The same numbers on every machine: calls that are newer than the common table.
_COMMON = {
    "pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "quotactl_fd": 443,
}  # fmt: skip
_CLONE3 = 435
_X86_64 = {
    "ptrace": 101, "syslog": 103, "uselib": 134, "personality": 135, "vhangup": 153, "modify_ldt": 154,
    "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "clock_settime": 227, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60, "acct": 89,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "move_pages": 239, "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "kcmp": 272, "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor architecture: its id (linux/audit.h) and its numbers of system calls."""

    audit: int
    denied: dict[str, int]
    clone: int
    ioctl: int


MACHINES = {
    "x86_64": Machine(0xC000003E, {**_X86_64, **_COMMON}, clone=56, ioctl=16),
    "aarch64": Machine(0xC00000B7, {**_AARCH64, **_COMMON}, clone=220, ioctl=29),
}


def filter_program(machine: str) -> bytes | None:
    """The filter for `machine` (as `platform.machine()` names it) as an array of `struct sock_filter`. None for a
    machine whose numbers of system calls are not known here.
    """
    known = MACHINES.get(machine)
    return None if known is None else b"".join(_instructions(known))


def open_filter() -> int | None:
    """A descriptor from which bwrap reads the filter for this machine, to be closed by the caller; None as above."""
    program = filter_program(platform.machine())
    if program is None:
        return None
    descriptor = os.memfd_create("seccomp")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _instructions(machine: Machine) -> Iterable[bytes]:
    yield _step(_LOAD, _MACHINE)
    # The same kernel runs programs of other architectures, whose numbers mean other calls.
    yield from _unless(_EQUAL, machine.audit, _KILL)
    yield _step(_LOAD, _NUMBER)
    if machine is MACHINES["x86_64"]:
        yield from _when(_AT_LEAST, _X32, _fails(errno.ENOSYS))
    for number in sorted(machine.denied.values()):
        yield from _when(_EQUAL, number, _fails(errno.EPERM))
    # Its flags are in memory, which a filter cannot read. The C library then uses `clone`.
    yield from _when(_EQUAL, _CLONE3, _fails(errno.ENOSYS))
    yield from _of_argument(machine.clone, _FIRST_ARGUMENT, _when(_ANY_BIT, _NEW_NAMESPACES, _fails(errno.EPERM)))
    pasting = [*_when(_EQUAL, _TIOCSTI, _fails(errno.EPERM)), *_when(_EQUAL, _TIOCLINUX, _fails(errno.EPERM))]
    yield from _of_argument(machine.ioctl, _SECOND_ARGUMENT, pasting)
    yield _step(_RETURN, _ALLOW)


def _of_argument(number: int, argument: int, checks: list[bytes]) -> list[bytes]:
    """Checks of one argument of one call, which is allowed when none of them ends it."""
    body = [_step(_LOAD, argument), *checks, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, otherwise=len(body)), *body]


def _when(comparison: int, value: int, result: int) -> list[bytes]:
    return [_step(comparison, value, otherwise=1), _step(_RETURN, result)]


def _unless(comparison: int, value: int, result: int) -> list[bytes]:
    return [_step(comparison, value, then=1), _step(_RETURN, result)]


def _fails(number: int) -> int:
    return _FAIL | number


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one `struct sock_filter`; `then` and `otherwise` are how many steps a comparison skips."""
    return struct.pack("=HBBI", code, then, otherwise, value)


class BoundedOutput:
    """Keeps at most `head_bytes` of the beginning and about `tail_bytes` of the end."""

    def __init__(self, *, head_bytes: int = 262_144, tail_bytes: int = 786_432) -> None:
        self._head = bytearray()
        self._head_bytes = head_bytes
        self._tail: deque[bytes] = deque()
        self._tail_bytes = tail_bytes
        self._kept_tail = 0
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece of output."""
        self.total += len(piece)
        room = self._head_bytes - len(self._head)
        self._head += piece[:room]
        rest = piece[room:] if room > 0 else piece
        if not rest:
            return
        self._tail.append(rest)
        self._kept_tail += len(rest)
        while self._kept_tail - len(self._tail[0]) >= self._tail_bytes:
            self._kept_tail -= len(self._tail.popleft())

    @property
    def dropped(self) -> int:
        """The number of bytes left out."""
        return self.total - len(self._head) - self._kept_tail

    @property
    def text(self) -> str:
        """The output, with a note where bytes were left out. Bytes that are not UTF-8 are replaced."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self.dropped:
            return (head + tail).decode(errors="replace")
        note = f"\n[… {self.dropped} bytes of the output left out here …]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")


SANDBOX_UID = 65_534
"""The user (nobody) that runs commands if the worker is root."""
_INSIDE_UID = "1000"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": WORKSPACE,
    "PWD": WORKSPACE,
    "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_PROBE_SECONDS = 20
_PROBE_OWNER = "(probe)"
"""Not a valid caller id."""
_WATCH_SECONDS = 0.1
_READ_BYTES = 65_536

Ended = Literal["exited", "timed_out", "memory", "flooded"]


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one command. The memory limit applies to all its processes together, and to each of them."""

    memory_bytes: int = 1024 * 1024 * 1024
    processes: int = 128
    file_bytes: int = 1024 * 1024 * 1024
    temporary_bytes: int = 256 * 1024 * 1024
    output_bytes: int = 64 * 1024 * 1024
    commands: int = 4
    commands_per_caller: int = 2
    """The number of one caller's commands that run at once. The rest wait, without a slot."""
    waiting_per_caller: int = 50
    """Further ones are refused: each occupies a place of the worker's short activities."""


class SandboxUnavailable(Exception):
    """The sandbox does not work on this machine, so commands are refused. The message gives the reason."""


class Sandbox:
    """Runs commands, each in its own sandbox, at most `limits.commands` at once."""

    def __init__(self, workspaces: Workspaces, limits: SandboxLimits, *, program: str = "bwrap") -> None:
        """`program` is the path or name of bwrap. Call `probe` first."""
        self._workspaces = workspaces
        self._limits = limits
        self._program = program
        self._slots = asyncio.Semaphore(limits.commands)
        self._callers: dict[str, _CallersTurn] = {}

    def probe(self) -> None:
        """Run a command to see whether the sandbox works. Raises `SandboxUnavailable`."""
        program = shutil.which(self._program)
        if program is None:
            raise SandboxUnavailable(f"{self._program} is not installed (Debian package bubblewrap).")
        uid = sandbox_uid()
        try:
            folder = self._workspaces.path(WorkspaceOwner(caller_id=_PROBE_OWNER))
            with _seccomp_filter() as denied:
                probed = subprocess.run(
                    [program, *sandbox_arguments(folder, self._limits, seccomp=denied), "true"],
                    pass_fds=(denied,),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROBE_SECONDS,
                    check=False,
                    env={},
                    user=uid,
                    group=uid,
                    extra_groups=None if uid is None else (),
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise SandboxUnavailable(f"{self._program} cannot be run ({type(error).__name__}).") from error
        if probed.returncode != 0:
            reason = probed.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxUnavailable(f"{self._program} does not work here: {reason or probed.returncode}")

    async def run(self, request: CommandInput) -> CommandOutcome:
        """Run the command until it ends, times out or reaches a limit. When cancelled, kill it first. Raises
        `ToolFailure` when too many commands of its caller wait already.
        """
        async with self._turn_of(request.owner.caller_id), self._slots:
            return await self._supervise(await self._started(request), request)

    @asynccontextmanager
    async def _turn_of(self, caller_id: str) -> AsyncGenerator[None]:
        turn = self._callers.setdefault(caller_id, _CallersTurn(asyncio.Semaphore(self._limits.commands_per_caller)))
        if turn.commands >= self._limits.commands_per_caller + self._limits.waiting_per_caller:
            raise _too_many(turn.commands)
        turn.commands += 1
        try:
            async with turn.slots:
                yield
        finally:
            turn.commands -= 1
            if not turn.commands:
                self._callers.pop(caller_id, None)

    async def _started(self, request: CommandInput) -> asyncio.subprocess.Process:
        folder, uid = await asyncio.to_thread(self._workspaces.path, request.owner), sandbox_uid()
        with _seccomp_filter() as denied:
            # Started on the event loop's thread: the kernel ends the sandbox with the thread that started it.
            return await asyncio.create_subprocess_exec(
                shutil.which(self._program) or self._program,
                *sandbox_arguments(folder, self._limits, seccomp=denied),
                request.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(denied,),
                env={},
                user=uid,
                group=uid,
                extra_groups=None if uid is None else (),
            )

    async def _supervise(self, process: asyncio.subprocess.Process, request: CommandInput) -> CommandOutcome:
        output = BoundedOutput()
        finished = asyncio.create_task(self._drain(process, output))
        watched = asyncio.create_task(self._watch(process.pid, output))
        ended: Ended = "exited"
        try:
            done, _ = await asyncio.wait(
                {finished, watched}, timeout=request.timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if finished not in done:
                ended = watched.result() if watched in done else "timed_out"
        finally:
            watched.cancel()
            _kill(process)
            # The pipe closes when the last process that holds it has ended.
            await asyncio.shield(finished)
        code = process.returncode
        exit_code = code if code is None or code >= 0 else 128 - code
        return CommandOutcome(
            output=output.text,
            ended=ended,
            exit_code=exit_code if ended == "exited" else None,
            dropped_bytes=output.dropped,
        )

    async def _drain(self, process: asyncio.subprocess.Process, output: BoundedOutput) -> None:
        assert process.stdout is not None
        while piece := await process.stdout.read(_READ_BYTES):
            output.add(piece)
        await process.wait()

    async def _watch(self, pid: int, output: BoundedOutput) -> Ended:
        """Return when the command exceeds a limit."""
        while True:
            if output.total > self._limits.output_bytes:
                return "flooded"
            if await asyncio.to_thread(memory_of, pid) > self._limits.memory_bytes:
                return "memory"
            await asyncio.sleep(_WATCH_SECONDS)


@dataclass(slots=True)
class _CallersTurn:
    slots: asyncio.Semaphore
    commands: int = 0
    """Those that run and those that wait."""


@contextmanager
def _seccomp_filter() -> Generator[int]:
    """A descriptor of the filter of system calls. Raises `SandboxUnavailable` where there is none for this machine."""
    descriptor = open_filter()
    if descriptor is None:
        raise SandboxUnavailable(f"There is no filter of system calls for {platform.machine()}.")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _too_many(commands: int) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.CAPACITY,
        f"{commands} commands of this caller run or wait on this worker already.",
        "Wait until some of them have ended.",
    )


def sandbox_arguments(folder: Path, limits: SandboxLimits, *, seccomp: int) -> list[str]:
    """Return the arguments of bwrap; the command follows them as one argument. `seccomp` is the filter's descriptor."""
    isolation = (
        "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --clearenv --cap-drop ALL"
        f" --uid {_INSIDE_UID} --gid {_INSIDE_UID} --hostname sandbox"
    )
    arguments = [*isolation.split(), "--seccomp", str(seccomp)]
    for name, value in _ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for path in _CONFIGURATION:
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # noqa: S108  # the sandbox's own
        arguments += ["--size", str(limits.temporary_bytes), "--tmpfs", path]
    arguments += ["--remount-ro", "/dev"]
    arguments += ["--bind", str(folder), WORKSPACE, "--chdir", WORKSPACE, "--remount-ro", "/", "--"]
    return [*arguments, *_with_limits(limits)]


def _with_limits(limits: SandboxLimits) -> list[str]:
    """A shell that sets the limits on itself and is then replaced by the shell that runs the command. The limits are
    set inside the sandbox: the kernel counts processes per user namespace, so each sandbox has its own.
    """
    kilobytes = limits.memory_bytes // 1024
    bounds = f"ulimit -c 0 -d {kilobytes} -u {limits.processes} -f {limits.file_bytes // 1024} -n 1024"
    return ["/bin/bash", "-c", f'{bounds} && exec /bin/bash -c "$1"', "sandbox"]


def refused(error: SandboxUnavailable) -> ToolFailure:
    """Return the failure of a command on a worker without a sandbox."""
    return ToolFailure.of(
        ErrorCategory.PERMISSION,
        f"Commands are refused on this worker: they cannot be confined. {error}",
        "The operator has to let the worker use bubblewrap with user namespaces.",
    )


def sandbox_uid() -> int | None:
    """Return the user id of commands when this process is root, else None."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the sandbox's first process and its group; the kernel then ends the PID namespace with all others."""
    if process.returncode is None:  # else the pid may belong to another process by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def memory_of(pid: int) -> int:
    """Resident bytes of `pid` and its descendants; 0 for processes that have ended."""
    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(map(_resident, processes))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0
