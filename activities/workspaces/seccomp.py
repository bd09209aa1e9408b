"""The system calls that are denied to a command in its sandbox, as a filter for seccomp(2) in classic BPF. The
namespaces already remove the effects of most; the filter removes kernel code in which most escapes from containers were
found. A denied call fails with EPERM.
"""

import errno
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

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
