"""Commands in their sandbox: what they cannot see, reach or use up, and that nothing of them is left."""

import asyncio
import dataclasses
import os
import platform
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.workspaces.activities import CommandInput, CommandOutcome, WorkspaceOwner, Workspaces
from outlast.activities.workspaces.bubblewrap import MACHINES, Sandbox, SandboxLimits, SandboxUnavailable, sandbox_uid
from tests.support.eventually import eventually
from tests.support.needs import require

LIMITS = SandboxLimits(memory_bytes=256 * 1024 * 1024, processes=48, output_bytes=4 * 1024 * 1024)


def _made(reachable: Path, **options: str) -> Sandbox:
    return Sandbox(Workspaces(reachable / "direct", uid=sandbox_uid()), LIMITS, **options)


@pytest.fixture
def sandbox(reachable: Path) -> Sandbox:
    require("bubblewrap")
    made = _made(reachable)
    made.probe()
    return made


@pytest.fixture
def owner() -> WorkspaceOwner:
    return WorkspaceOwner(caller_id="local", session_id=secrets.token_hex(8))


async def run(sandbox: Sandbox, owner: WorkspaceOwner, command: str, seconds: float = 60) -> CommandOutcome:
    return await sandbox.run(CommandInput(owner=owner, command=command, timeout_seconds=seconds))


def alive(mark: str) -> list[int]:
    """Processes whose command line has `mark`."""
    return [
        process.pid
        for process in psutil.process_iter(["pid", "cmdline", "status"])
        if process.info["status"] != "zombie" and any(mark in part for part in process.info["cmdline"] or ())
    ]


def descendants() -> set[int]:
    """Processes that this one has begun, the servers of other tests among them."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def sleeper() -> tuple[str, str]:
    """A command that starts two processes which would outlive it, and a mark by which they are known."""
    mark = f"9{secrets.randbelow(10**9):09}"
    return mark, f"(setsid sleep {mark} &) ; (trap '' TERM INT HUP; sleep {mark}) & echo begun; sleep {mark}"


@asynccontextmanager
async def running(
    sandbox: Sandbox, owner: WorkspaceOwner, seconds: float = 60
) -> AsyncIterator[tuple[str, asyncio.Task[CommandOutcome]]]:
    """A command that runs for long, once all its processes are there."""
    mark, command = sleeper()
    task = asyncio.create_task(run(sandbox, owner, command, seconds))

    async def begun() -> bool:
        return len(alive(mark)) >= 3

    await eventually(begun)
    yield mark, task


async def test_a_command_gives_its_output_and_its_exit_code(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    outcome = await run(sandbox, owner, "echo out; echo err >&2; exit 3")
    assert outcome == CommandOutcome(output="out\nerr\n", ended="exited", exit_code=3)
    assert (await run(sandbox, owner, "kill -9 $$")).exit_code == 137
    assert (await run(sandbox, owner, "cat")).exit_code == 0, "there is nothing to read"


async def test_what_a_command_leaves_is_there_for_the_next_and_for_nobody_else(
    sandbox: Sandbox, owner: WorkspaceOwner
) -> None:
    await run(sandbox, owner, "echo kept > a.txt; echo gone > /tmp/b.txt")
    assert (await run(sandbox, owner, "cat a.txt; ls /tmp")).output == "kept\n"
    other = WorkspaceOwner(caller_id="other", session_id=owner.session_id)
    assert (await run(sandbox, other, "ls -A . ..")).output.count("a.txt") == 0


async def test_a_command_sees_no_secret_of_its_worker(
    sandbox: Sandbox, owner: WorkspaceOwner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTLAST_SEAL_KEYS", "secretOfTheWorker")
    (tmp_path / "seal.keys").write_text("secretOfTheWorker")
    paths = f"{tmp_path}/seal.keys /etc/shadow /etc/passwd /root /home /proc/{os.getpid()}/environ {Path.cwd()}"
    outcome = await run(
        sandbox, owner, f"env; cat /proc/*/environ /proc/self/mountinfo; for p in {paths}; do ls $p; done"
    )
    assert "secretOfTheWorker" not in outcome.output
    assert outcome.output.count("No such file") == len(paths.split())


async def test_a_command_has_no_rights(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    attempts = ["touch /usr/x /x /dev/x /etc/x", "mount -t tmpfs none /tmp", "unshare -Ur true", "chroot / true"]
    outcome = await run(sandbox, owner, "; ".join(f"{attempt} && echo DONE" for attempt in attempts))
    assert "DONE" not in outcome.output
    caps = await run(sandbox, owner, "grep -E 'CapEff|NoNewPrivs' /proc/self/status")
    assert caps.output.split() == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]


async def test_a_command_has_no_network(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        name = f"\0outlast-{secrets.token_hex(4)}"
        hidden.bind(name)
        hidden.listen()
        port = server.getsockname()[1]
        tcp, udp = f"(echo > /dev/tcp/127.0.0.1/{port})", "(echo > /dev/udp/192.0.2.1/53)"
        outcome = await run(sandbox, owner, f"{tcp} && echo REACHED; {udp} && echo REACHED; cat /proc/net/unix")
    assert "REACHED" not in outcome.output
    assert name[1:] not in outcome.output


async def test_a_link_out_of_the_workspace_leads_nowhere(
    sandbox: Sandbox, owner: WorkspaceOwner, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("the secret outside")
    outcome = await run(sandbox, owner, f"ln -s {tmp_path}/secret link; cat link; cat /proc/self/root{tmp_path}/secret")
    assert "the secret outside" not in outcome.output


async def test_a_fork_bomb_is_limited(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    most, others = 0, descendants()
    task = asyncio.create_task(
        run(sandbox, owner, "bomb() { bomb | bomb & }; bomb; for i in $(seq 99); do sleep 1 & done; wait", 3)
    )
    while not task.done():
        most = max(most, len(descendants() - others))
        await asyncio.sleep(0)
    assert most <= LIMITS.processes + 3
    assert "Resource temporarily unavailable" in (await task).output
    assert descendants() - others == set()


HUNGRY = "import time; x = bytearray(b'1') * (120 << 20); time.sleep(600)"


@pytest.mark.parametrize(
    ("command", "ended"),
    [("yes", "flooded"), (f'for i in 1 2 3; do python3 -c "{HUNGRY}" & done; wait', "memory")],
)
async def test_what_uses_too_much_is_ended(sandbox: Sandbox, owner: WorkspaceOwner, command: str, ended: str) -> None:
    outcome = await run(sandbox, owner, command)
    assert (outcome.ended, outcome.exit_code) == (ended, None)
    assert len(outcome.output.encode()) < 2 * 1024 * 1024


async def test_one_process_gets_no_more_memory_than_all_may(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    outcome = await run(sandbox, owner, "python3 -c 'bytearray(400 << 20)'")
    assert "MemoryError" in outcome.output


async def test_temporary_files_are_limited(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    outcome = await run(
        sandbox, owner, "for f in /tmp/f /dev/shm/f; do head -c 400M /dev/zero > $f; stat -c %s $f; done"
    )
    assert outcome.output.count("No space left") == 2


async def test_of_much_output_both_ends_are_kept(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    outcome = await run(sandbox, owner, "seq 1 300000")
    assert outcome.output.startswith("1\n2\n")
    assert outcome.output.endswith("299999\n300000\n")
    assert outcome.dropped_bytes > 0
    assert f"[… {outcome.dropped_bytes} bytes" in outcome.output


async def test_nothing_is_left_after_a_command_ended(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    mark, command = sleeper()
    outcome = await run(sandbox, owner, command.rpartition(";")[0])
    assert (outcome.ended, outcome.output) == ("exited", "begun\n")
    assert alive(mark) == []


async def test_nothing_is_left_after_its_time(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    async with running(sandbox, owner, seconds=3) as (mark, task):
        outcome = await task
    assert (outcome.ended, outcome.output) == ("timed_out", "begun\n")
    assert alive(mark) == []


async def test_nothing_is_left_after_it_was_cancelled(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    async with running(sandbox, owner) as (mark, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive(mark) == []


@pytest.mark.needs("bubblewrap")
async def test_only_so_many_commands_run_at_once(reachable: Path, owner: WorkspaceOwner) -> None:
    sandbox = Sandbox(Workspaces(reachable / "direct", uid=sandbox_uid()), SandboxLimits(commands=1))
    async with running(sandbox, owner) as (mark, task):
        second = asyncio.create_task(run(sandbox, owner, "echo second"))
        await asyncio.wait({second}, timeout=0.2)
        assert not second.done()
        task.cancel()
        assert (await second).output == "second\n"
    assert alive(mark) == []


def test_without_a_sandbox_the_probe_says_why(reachable: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="not installed"):
        _made(reachable, program="no-such-program").probe()
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(SandboxUnavailable):
        _made(reachable, program=str(broken)).probe()


PROBE = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
from_worker = dict(entry.split("=") for entry in sys.argv[1:])
for name, number in from_worker.items():
    ctypes.set_errno(0)
    result = libc.syscall(int(number), -1, -1, -1, -1, -1, -1)
    print(name, errno.errorcode.get(ctypes.get_errno(), result))
ctypes.set_errno(0)
libc.syscall(int(from_worker["ioctl"]), 0, 0x5412, b"x")
print("TIOCSTI", errno.errorcode[ctypes.get_errno()])
"""


async def test_a_command_cannot_make_the_system_calls_of_escapes(sandbox: Sandbox, owner: WorkspaceOwner) -> None:
    machine = MACHINES[platform.machine()]
    denied = {name: number for name, number in machine.denied.items() if name not in ("reboot", "vhangup")}
    numbers = {**denied, "clone3": 435, "clone": machine.clone, "ioctl": machine.ioctl}
    (await run(sandbox, owner, f"cat > probe.py <<'END'\n{PROBE}\nEND"))
    command = "/usr/bin/python3 probe.py " + " ".join(f"{name}={number}" for name, number in numbers.items())
    outcome = await run(sandbox, owner, f"grep ^Seccomp: /proc/self/status; {command}")
    mode, *answers = outcome.output.splitlines()
    told = dict(line.split() for line in answers)
    assert mode.split() == ["Seccomp:", "2"]
    assert told == {
        **dict.fromkeys(denied, "EPERM"), "clone3": "ENOSYS", "clone": "EPERM", "ioctl": "EBADF", "TIOCSTI": "EPERM",
    }  # fmt: skip
    ordinary = (
        "python3 -c 'import threading,subprocess; t=threading.Thread(target=print, args=(1,)); t.start(); t.join()'"
    )
    assert (await run(sandbox, owner, f"PATH=/usr/bin; {ordinary}; ls | sort | head -1")).output == "1\nprobe.py\n"


async def test_on_a_machine_without_a_filter_commands_are_refused(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("bubblewrap")
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(SandboxUnavailable, match="no filter of system calls for pdp11"):
        _made(reachable).probe()


async def test_one_caller_takes_neither_all_slots_nor_all_places(reachable: Path) -> None:
    require("bubblewrap")
    limits = dataclasses.replace(LIMITS, commands=2, commands_per_caller=1, waiting_per_caller=1)
    sandbox = Sandbox(Workspaces(reachable / "direct", uid=sandbox_uid()), limits)
    greedy, other = WorkspaceOwner(caller_id="greedy"), WorkspaceOwner(caller_id="other")
    async with running(sandbox, greedy) as (_, first):
        second = asyncio.create_task(run(sandbox, WorkspaceOwner(caller_id="greedy", session_id="2"), "echo second"))
        assert (await run(sandbox, other, "echo done")).output == "done\n"
        assert not second.done()
        with pytest.raises(ToolFailure) as refused:
            await run(sandbox, greedy, "echo third")
        assert refused.value.envelope.category is ErrorCategory.CAPACITY
        first.cancel()
        assert (await second).output == "second\n"
    assert (await run(sandbox, greedy, "echo again")).output == "again\n"
