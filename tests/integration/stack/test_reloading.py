"""A stack with stand-ins for worker and API, and with tools under work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.errors import ToolModuleError
from outlast.deploy.local.processes import ChildSpec, Observers, RestartPolicy, SupervisedProcess
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import find_running, read_state
from outlast.deploy.local.tool_reload import ToolReloader, check_tool_modules
from tests.support.eventually import eventually
from tests.support.stacks.stack_config import Events, free_ports_config, stand_in

pytestmark = pytest.mark.timeout(300)  # each check imports all of Outlast's tools

SECONDS = 90
TOOLS = """
from words import GREETING
from outlast import Category, plain, tool

@plain
async def wave(args): ...

TOOLS = [tool("wave").category(Category.DEV).describe(GREETING).server(wave).build()]
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A file of tools that imports another file beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "words.py").write_text("GREETING = 'Waves.'\n")
    (folder / "my_tools.py").write_text(TOOLS)
    return folder / "my_tools.py"


def config(data_dir: Path, tools: Path, **settings: object) -> StackConfig:
    commands = {
        Component.WORKER: stand_in("OUTLAST_WORKER_METRICS_PORT"),
        Component.API: stand_in("OUTLAST_API_PORT"),
    }
    given = {"commands": commands, "tools_from": str(tools), "reload_tools": True, **settings}
    return free_ports_config(data_dir, Component.WORKER, Component.API, **given)


def save(file: Path, text: str) -> None:
    file.write_text(text)


def pids(stack: Stack) -> tuple[int | None, int | None]:
    return stack.pid("worker"), stack.pid("api")


@asynccontextmanager
async def reloading_stack(data_dir: Path, tools: Path, events: Events) -> AsyncIterator[Stack]:
    async with Stack(config(data_dir, tools), on_event=events.append) as stack:
        yield stack


async def ready_again(events: Events, times: int) -> None:
    for part in ("worker", "api"):
        await eventually(lambda part=part: events.kinds_of(part).count("ready") == times, timeout_seconds=SECONDS)


async def test_a_change_of_the_tools_or_of_what_they_import_replaces_worker_and_api(
    tmp_path: Path, tools: Path
) -> None:
    """Also of what the first version did not import: a file in a folder of its own."""
    events, more = Events(), tools.parent / "more" / "phrases.py"
    more.parent.mkdir()
    save(more, "ASIDE = 'Twice.'\n")
    async with reloading_stack(tmp_path / "data", tools, events) as stack:
        first = pids(stack)
        save(tools, "from more.phrases import ASIDE\n" + TOOLS.replace('"wave"', '"wave_twice"'))
        await ready_again(events, 2)
        second = pids(stack)
        save(more, "ASIDE = 'Thrice.'\n")
        await ready_again(events, 3)
        third = pids(stack)
        state = find_running(tmp_path / "data")
    assert not {*first} & {*second}
    assert not {*second} & {*third}
    assert [event.message for event in events if event.kind == "reloading"] == [
        f"{more}, {tools} changed: running tasks continue with the new tools",
        f"{more} changed: running tasks continue with the new tools",
    ]
    assert state is not None
    assert {part.restarts for part in state.parts.values()} == {0}


async def test_a_change_that_does_not_load_is_one_line_and_the_old_processes_go_on(tmp_path: Path, tools: Path) -> None:
    events = Events()
    async with reloading_stack(tmp_path / "data", tools, events) as stack:
        first = pids(stack)
        save(tools, "\n\ndef wave(:\n")
        failed = await eventually(
            lambda: [event.message for event in events if event.kind == "reload_failed"], timeout_seconds=SECONDS
        )
        assert pids(stack) == first
        save(tools, TOOLS + "# mended\n")
        await ready_again(events, 2)
    assert f"{tools}, line 3: SyntaxError" in failed[0]
    assert "worker and api keep their current tools" in failed[0]
    assert len(failed[0].splitlines()) == 1
    assert "reloading" in events.kinds_of("tools")


@pytest.mark.thorough
async def test_a_broken_change_while_worker_and_api_are_replaced_does_not_say_that_they_go_on(
    tmp_path: Path, tools: Path
) -> None:
    settings, events = config(tmp_path / "data", tools), Events()
    files = await check_tool_modules(settings)
    nobody = Observers(events.append, lambda _name, _status: None, lambda _error: None)
    starting = [
        SupervisedProcess(ChildSpec(name, (), {}, tmp_path / f"{name}.log", never_ready), nobody, RestartPolicy())
        for name in (Component.WORKER, Component.API)
    ]
    save(tools, "\n\ndef wave(:\n")
    reloading = asyncio.create_task(ToolReloader(settings, starting, files, events.append).run())
    failed = await eventually(
        lambda: [event.message for event in events if event.kind == "reload_failed"], timeout_seconds=SECONDS
    )
    reloading.cancel()
    assert failed[0].endswith("(worker and api were being replaced, and start when this is fixed)")


async def never_ready() -> bool:
    return False


async def test_tools_that_do_not_load_stop_the_start_before_anything_is_started(tmp_path: Path, tools: Path) -> None:
    save(tools, "import no_such_thing\n")
    events = Events()
    with pytest.raises(ToolModuleError, match=r"my_tools\.py, line 1: ModuleNotFoundError") as caught:
        await Stack(config(tmp_path / "data", tools, reload_tools=False), on_event=events.append).__aenter__()
    assert len(str(caught.value).splitlines()) == 1
    assert not events
    assert read_state(tmp_path / "data") is None


async def test_a_reload_without_modules_of_ones_own_is_refused(tmp_path: Path, tools: Path) -> None:
    with pytest.raises(ToolModuleError, match="--tools-from"):
        await Stack(config(tmp_path / "data", tools, tools_from=None)).__aenter__()


async def test_a_file_whose_name_belongs_to_another_module_is_refused(tmp_path: Path, tools: Path) -> None:
    taken = tools.with_name("json.py")
    save(taken, TOOLS)
    with pytest.raises(ToolModuleError, match="'json' is the name of another module"):
        await Stack(config(tmp_path / "data", taken)).__aenter__()
