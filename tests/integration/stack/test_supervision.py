"""One stack with stand-ins: what happens to its processes."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from outlast.deploy.local import plan
from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.errors import (
    DataDirectoryInUseError,
    NotReadyError,
    PortTakenError,
    StackError,
    SupervisionError,
)
from outlast.deploy.local.ports import any_free, is_free
from outlast.deploy.local.processes import RestartPolicy
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import StackEvent, find_running, read_state
from tests.support.eventually import eventually
from tests.support.stacks.stack_config import (
    Events,
    clean_environment,
    free_ports_config,
    is_running,
    running_children,
    stand_in,
    start_stack_process,
)

QUICK = RestartPolicy(first_pause_seconds=0.01, max_pause_seconds=0.02)


def api_config(data_dir: Path, *options: str, **settings: object) -> StackConfig:
    """A stack whose only part is a stand-in for the API."""
    commands = {Component.API: stand_in("OUTLAST_API_PORT", *options)}
    return free_ports_config(data_dir, Component.API, **{"commands": commands, **settings})


def two_parts(data_dir: Path, *api_options: str) -> StackConfig:
    """A stack of stand-ins for worker and API."""
    commands = {
        Component.WORKER: stand_in("OUTLAST_WORKER_METRICS_PORT"),
        Component.API: stand_in("OUTLAST_API_PORT", *api_options),
    }
    return free_ports_config(data_dir, Component.WORKER, Component.API, commands=commands)


async def answers(url: str | None) -> bool:
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(str(url))).is_success
    except httpx.HTTPError:
        return False


async def test_a_stack_is_ready_when_it_is_entered_and_gone_when_it_is_left(tmp_path: Path) -> None:
    async with Stack(api_config(tmp_path)) as stack:
        assert await answers(stack.addresses.api_url)
        pid = stack.pid("api")
        assert pid is not None
    assert not is_running(pid)
    assert not await answers(stack.addresses.api_url)


async def test_a_killed_child_comes_back_on_the_same_port_and_the_stack_says_so(tmp_path: Path) -> None:
    events = Events()
    async with Stack(api_config(tmp_path), on_event=events.append) as stack:
        first = stack.pid("api")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: events.kinds_of("api").count("ready") == 2)
        assert stack.pid("api") != first
        assert await answers(stack.addresses.api_url)
        state = read_state(tmp_path)
        assert state is not None
        assert state.children["api"] == stack.pid("api")
        assert state.instance_id
    assert events.kinds_of("api") == [
        "starting", "ready", "exited", "restarting", "ready", "stopping", "stopped",
    ]  # fmt: skip
    assert "SIGKILL" in next(event.message for event in events if event.kind == "exited")


async def test_what_a_killed_child_started_does_not_go_on(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/grandchild; exec {' '.join(stand_in('OUTLAST_API_PORT'))}"
    async with Stack(api_config(tmp_path, commands={Component.API: ("sh", "-c", script)})) as stack:
        grandchild = int((tmp_path / "grandchild").read_text())
        child = stack.pid("api")
        assert child is not None
        os.kill(child, signal.SIGKILL)
        await eventually(lambda: not is_running(grandchild))


async def test_a_part_that_was_ready_once_is_restarted_for_ever_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    broken, events = tmp_path / "broken", Events()
    async with Stack(two_parts(tmp_path, "--fail-while", str(broken)), on_event=events.append, policy=QUICK) as stack:
        other, pid = stack.pid("worker"), stack.pid("api")
        broken.touch()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: events.kinds_of("api").count("exited") > 20)
        state = find_running(tmp_path)
        assert state is not None
        assert state.parts["api"].state in ("starting", "restarting")
        assert state.parts["api"].restarts > 10
        assert stack.pid("worker") == other
        assert events.kinds_of("worker") == ["starting", "ready"]
        broken.unlink()
        for number in range(2, 9):
            await eventually(lambda number=number: events.kinds_of("api").count("ready") == number)
            pid = stack.pid("api")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        await eventually(lambda: events.kinds_of("api").count("ready") == 9)
        assert await answers(stack.addresses.api_url)
        assert stack.pid("worker") == other


async def test_the_reason_of_every_restart_is_reported_with_exit_code_and_log(tmp_path: Path) -> None:
    broken, events = tmp_path / "broken", Events()
    async with Stack(api_config(tmp_path, "--fail-while", str(broken)), on_event=events.append, policy=QUICK) as stack:
        broken.touch()
        pid = stack.pid("api")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        ends = await eventually(lambda: [event.message for event in events if event.kind == "exited"][1:])
        state = await eventually(lambda: find_running(tmp_path))
    assert "api ended with exit code 1 before it was ready" in ends[0]
    assert "I was told to fail" in ends[0]
    assert str(tmp_path / "logs" / "api.log") in ends[0]
    assert "I was told to fail" in str(state.parts["api"].last_end)


@pytest.mark.parametrize("part", [Component.API, Component.SANDBOX])
async def test_a_part_is_not_ready_while_another_program_answers_on_its_port(tmp_path: Path, part: Component) -> None:
    """The child neither binds nor ends: only its process id tells that the answer is not its own.

    The API says it in its ready file; of the sandbox, which writes none, the system is asked who holds the port.
    """
    port = any_free("127.0.0.1")
    settings = {f"{part}_port": port, "commands": {part: ("sleep", "1000")}}
    config = free_ports_config(tmp_path, part, **settings, ready_timeout_seconds=5)
    entering = asyncio.create_task(Stack(config).__aenter__())
    await eventually(lambda: running_children(find_running(tmp_path)))
    stranger = await asyncio.create_subprocess_exec(*stand_in(str(port)))
    try:
        await eventually(lambda: answers(f"http://127.0.0.1:{port}"))
        with pytest.raises(NotReadyError, match=rf"{part} was not ready after 5 seconds"):
            await entering
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_ready_file_that_names_another_process_proves_nothing(tmp_path: Path) -> None:
    script = 'echo \'{"pid": 1}\' > "$OUTLAST_READY_FILE"; exec sleep 1000'
    commands = {Component.WORKER: ("sh", "-c", script)}
    config = free_ports_config(tmp_path, Component.WORKER, commands=commands, ready_timeout_seconds=1)
    with pytest.raises(NotReadyError, match="worker was not ready after 1 seconds"):
        async with Stack(config):
            pass


async def test_the_metrics_of_the_worker_are_where_it_says(tmp_path: Path) -> None:
    script = (
        'echo "{\\"pid\\": $$, \\"metrics_url\\": \\"http://m/metrics\\"}" > "$OUTLAST_READY_FILE"; exec sleep 1000'
    )
    config = free_ports_config(tmp_path, Component.WORKER, commands={Component.WORKER: ("sh", "-c", script)})
    async with Stack(config) as stack:
        assert stack.addresses.metrics_url == "http://m/metrics"
        state = find_running(tmp_path)
        assert state is not None
        assert state.addresses.metrics_url == "http://m/metrics"


async def test_a_default_port_that_is_lost_while_the_part_starts_gives_way(tmp_path: Path) -> None:
    """The command gives the port away to another program the first time, as a race between two stacks does."""
    lost, events = tmp_path / "lost", Events()
    server = " ".join(stand_in("OUTLAST_API_PORT"))
    bound = "(exec 3<>/dev/tcp/127.0.0.1/$OUTLAST_API_PORT) 2>/dev/null"
    first = f"setsid {server} & echo $! > {lost}/pid; until {bound}; do :; done"
    script = f"if mkdir {lost} 2>/dev/null; then {first}; fi; exec {server}"
    config = api_config(tmp_path, api_port=0, commands={Component.API: ("bash", "-c", script)})
    try:
        async with Stack(config, on_event=events.append) as stack:
            assert await answers(stack.addresses.api_url)
            assert events.kinds_of("stack") == ["port_changed"]
            assert "another program took a port of api" in events[1].message
    finally:
        os.kill(int((lost / "pid").read_text()), signal.SIGKILL)


async def test_a_default_port_that_gave_way_stands_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There `outlast up --detach` finds it: the stack itself has no terminal."""
    with socket.create_server(("127.0.0.1", any_free("127.0.0.1"))) as other:
        default = other.getsockname()[1]
        monkeypatch.setitem(plan._WISHES, "api", ("API", "--api-port", default))
        async with Stack(api_config(tmp_path, api_port=None)) as stack:
            state = find_running(tmp_path)
    assert state is not None
    assert stack.addresses.api_url is not None
    port = stack.addresses.api_url.rpartition(":")[2]
    assert state.port_notes == (f"port {default} is taken: the API port is {port}",)


async def test_two_stacks_that_start_at_the_same_moment_both_come_up(tmp_path: Path) -> None:
    """Both want the same free default: one gets it, the other gives way."""
    default = any_free("127.0.0.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.deploy.local.ports.API", default)
        patch.setitem(plan._WISHES, "api", ("API", "--api-port", default))
        looks = iter([True, True])  # both look before either binds; who looks again sees what is there
        patch.setattr("outlast.deploy.local.ports.is_free", lambda *at: next(looks, False) or is_free(*at))
        configs = [api_config(tmp_path / name, api_port=None) for name in ("one", "two")]
        stacks = [Stack(config) for config in configs]
        entered = asyncio.gather(*(stack.__aenter__() for stack in stacks))
        await eventually(lambda: all(read_state(config.data_dir) for config in configs))
        patch.undo()
        await entered
    try:
        addresses = {str(stack.addresses.api_url) for stack in stacks}
        assert len(addresses) == 2
        assert all([await answers(address) for address in addresses])
    finally:
        for stack in stacks:
            await stack.__aexit__(None, None, None)


async def test_a_child_that_ends_before_it_is_ready_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    with pytest.raises(NotReadyError, match=r"exit code 1 before it was ready(.|\n)*I was told to fail"):
        async with Stack(api_config(tmp_path, "--fail-while", str(broken))):
            pass
    assert find_running(tmp_path) is None


async def test_a_child_that_does_not_become_ready_in_time_is_named(tmp_path: Path) -> None:
    config = api_config(tmp_path, commands={Component.API: ("sleep", "1000")}, ready_timeout_seconds=0.3)
    with pytest.raises(NotReadyError, match=r"api was not ready after 0\.3 seconds"):
        async with Stack(config):
            pass
    assert running_children(read_state(tmp_path)) == []


async def test_a_slow_child_that_holds_its_own_port_did_not_lose_it(tmp_path: Path) -> None:
    port = "int(os.environ['OUTLAST_WORKER_METRICS_PORT'])"
    script = f"import os, socket, time; own = socket.create_server(('127.0.0.1', {port})); time.sleep(1000)"
    commands = {Component.WORKER: (sys.executable, "-c", script)}
    settings = {"commands": commands, "worker_metrics_port": 0, "ready_timeout_seconds": 3}
    config, events = free_ports_config(tmp_path, Component.WORKER, **settings), Events()
    with pytest.raises(NotReadyError, match="worker was not ready after 3 seconds"):
        async with Stack(config, on_event=events.append):
            pass
    assert [event.message for event in events if "another program" in event.message] == []
    assert events.kinds_of("worker").count("starting") == 1


async def test_a_child_that_ignores_sigterm_is_killed_when_its_grace_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("outlast.deploy.local.plan", fromlist=["_"]).STOP_GRACE_SECONDS, Component.API, 0.2)
    async with Stack(api_config(tmp_path, "--ignore-sigterm")) as stack:
        pid = stack.pid("api")
    assert pid is not None
    assert not is_running(pid)


async def test_a_second_stack_on_the_same_directory_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    async with Stack(api_config(tmp_path)) as stack:
        with pytest.raises(DataDirectoryInUseError) as refusal:
            await Stack(api_config(tmp_path)).__aenter__()
        assert str(os.getpid()) in str(refusal.value)
        assert str(stack.addresses.api_url) in str(refusal.value)
        assert str(tmp_path) in str(refusal.value)
        running = find_running(tmp_path)
        assert running is not None
        assert running.addresses == stack.addresses
    assert find_running(tmp_path) is None


async def test_a_port_asked_for_by_name_and_taken_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    async with Stack(api_config(tmp_path / "one")) as first:
        port = int(str(first.addresses.api_url).rpartition(":")[2])
        with pytest.raises(PortTakenError, match=rf"Port {port} .*OUTLAST_API_PORT"):
            await Stack(api_config(tmp_path / "two", api_port=port)).__aenter__()


async def test_a_restarted_stack_keeps_the_ports_it_had(tmp_path: Path) -> None:
    config = api_config(tmp_path, api_port=None)
    async with Stack(api_config(tmp_path)) as first:
        used = first.addresses.api_url
    async with Stack(config) as second:
        # The default port if it is free, else the one from before: both are addresses that the user knows.
        assert second.addresses.api_url in {used, "http://127.0.0.1:8400"}


async def test_an_unreachable_cluster_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.deploy.local.stack.OUTSIDE_TIMEOUT_SECONDS", 0.1)
    config = free_ports_config(
        tmp_path, Component.TEMPORAL, environment=clean_environment(TEMPORAL_ADDRESS="127.0.0.1:1")
    )
    with pytest.raises(StackError, match=r"Temporal at 127\.0\.0\.1:1 .*cannot be reached"):
        async with Stack(config):
            pass


async def test_children_die_with_a_killed_parent_and_the_directory_is_free_again(tmp_path: Path) -> None:
    config = two_parts(tmp_path)
    with start_stack_process(config) as parent:
        await eventually(lambda: len(running_children(find_running(tmp_path))) == 2)
        state = read_state(tmp_path)
        parent.kill()
    await eventually(lambda: not running_children(state))
    async with Stack(config):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_everything_in_order_and_the_exit_code_is_zero(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start_stack_process(api_config(tmp_path)) as parent:
        state = await eventually(lambda: find_running(tmp_path))
        await asyncio.to_thread(_read_until, parent.stdout, "waiting")
        parent.send_signal(number)
        assert await asyncio.to_thread(parent.wait, 15) == 0
        output = str(parent.stdout.read()) if parent.stdout else ""
    assert "stopping api" in output
    assert not await answers(state.addresses.api_url)


async def test_a_signal_interrupts_a_program_that_does_not_wait(tmp_path: Path) -> None:
    with start_stack_process(api_config(tmp_path), "--busy") as parent:
        await asyncio.to_thread(_read_until, parent.stdout, "busy")
        parent.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(parent.wait, 15) == 1
        output = str(parent.stdout.read()) if parent.stdout else ""
    assert "stopping api" in output
    assert output.endswith("Interrupted by SIGTERM.\n")


async def test_a_signal_while_starting_stops_what_was_started(tmp_path: Path) -> None:
    config = api_config(tmp_path, commands={Component.API: ("sleep", "1000")})
    with start_stack_process(config) as parent:
        await asyncio.to_thread(_read_until, parent.stdout, "starting api")
        await eventually(lambda: running_children(find_running(tmp_path)))
        state = read_state(tmp_path)
        parent.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(parent.wait, 15) == 1
    assert running_children(state) == []


def _read_until(stream: object, text: str) -> None:
    assert stream is not None
    while text not in (line := stream.readline()):  # type: ignore[attr-defined]
        assert line, f"the output ended without {text!r}"


async def test_a_child_is_never_left_unwatched_in_silence(tmp_path: Path) -> None:
    def deaf(event: StackEvent) -> None:
        if event.kind == "exited":
            raise BrokenPipeError

    with pytest.raises(SupervisionError, match="api can no longer be supervised: BrokenPipeError"):
        async with Stack(api_config(tmp_path), on_event=deaf) as stack:
            pid = stack.pid("api")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await stack.wait()
