"""Modules with tools: by the entry points `outlast.tools` of installed packages, by name, and by folder."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.module_process import ModuleProcess

ENTRY = "entry-points"
OFFERED = "tests.unit.workflows.offered_tools"
TOOLS = """
from outlast.workflows.tools.framework.phases import plain
from outlast.workflows.tools.framework.tool import Category, NoArguments, tool

@plain
async def wave(args: NoArguments) -> str:
    return "waves"

TOOLS = [tool("NAME").category(Category.DEV).describe("Waves.").args(NoArguments).server(wave).build()]
"""
ODD = """
from collections.abc import Callable

from outlast import Arguments

class Odd(Arguments):
    made: Callable[[], int]
"""
MODE = """
from dataclasses import replace

from outlast.workflows.tools import default
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on the import path, as an installer fills it."""
    installed(tmp_path, "waving", group="outlast.tools")
    return tmp_path


def installed(site: Path, package: str, *, group: str) -> None:
    """Put a package with one tool of the package's name there, with the metadata that the packaging standards say."""
    (site / package).mkdir()
    (site / package / "__init__.py").touch()
    (site / package / "tools.py").write_text(TOOLS.replace("NAME", f"wave_{package}"))
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\nmine = {package}.tools\n")


def run(site: Path, *named: str) -> tuple[int, str]:
    """The exit code of a process that loads the tools of a folder, and what it wrote: what one has loaded it keeps."""
    log = site / "written"
    log.unlink(missing_ok=True)
    process = ModuleProcess(OFFERED, [str(site), *named], log=log, environment=os.environ)
    return process.wait(180), log.read_text()


def offered(site: Path, *named: str) -> Any:
    code, written = run(site, *named)
    assert code == 0, written
    return json.loads(written)


def test_an_installed_package_offers_its_tools_in_every_mode_where_entry_points_are_asked_for(site: Path) -> None:
    assert offered(site) == []
    assert offered(site, ENTRY) == ["wave_waving", "wave_waving"]


def test_a_package_that_is_also_named_is_loaded_once(site: Path) -> None:
    assert offered(site, "waving.tools", ENTRY) == ["wave_waving", "wave_waving"]


def test_entry_points_of_others_are_left_alone_and_modules_may_be_named(site: Path) -> None:
    installed(site, "other", group="somebody.else")
    assert offered(site, "other.tools", ENTRY) == ["wave_other", "wave_waving"] * 2


def test_an_installed_package_that_is_broken_is_named(site: Path) -> None:
    (site / "waving" / "tools.py").write_text("TOOLS = 1")
    code, written = run(site, ENTRY)
    assert code != 0
    assert "ExtensionError" in written
    assert "waving.tools" in written


_WITHOUT_SCHEMA = {
    "arguments": ".args(Odd)",
    "answers": ".output(Odd)",
}


@pytest.mark.parametrize("part", _WITHOUT_SCHEMA)
def test_a_tool_whose_schema_cannot_be_made_is_named_at_the_start(site: Path, part: str) -> None:
    text = TOOLS.replace("NAME", "wave_odd").replace(".args(NoArguments)", _WITHOUT_SCHEMA[part])
    (site / "waving" / "tools.py").write_text(ODD + text.replace("args: NoArguments", "args"))
    code, written = run(site, ENTRY)
    assert code != 0
    last = written.strip().splitlines()[-1]
    assert last.startswith("outlast.workflows.tools.extensions.ExtensionError: Tools of module 'waving.tools'")
    assert f"the {part} of tool 'wave_odd' have no JSON Schema: PydanticInvalidForJsonSchema: " in last


def test_a_tool_of_a_mode_without_a_schema_is_named_at_the_start_too(site: Path) -> None:
    text = (
        TOOLS.replace("NAME", "wave_odd").replace(".args(NoArguments)", ".args(Odd)").replace("TOOLS = ", "OF_MODE = ")
    )
    mode = MODE + "TOOLS = []\nMODES = [replace(default.MODE, name='waves', tools=(*default.MODE.tools, *OF_MODE))]\n"
    (site / "waving" / "tools.py").write_text(ODD + text.replace("args: NoArguments", "args") + mode)
    code, written = run(site, ENTRY)
    assert code != 0
    assert "the arguments of tool 'wave_odd' have no JSON Schema" in written


def test_a_folder_means_every_module_in_it_that_has_tools(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(TOOLS.replace("NAME", f"wave_{name}"))
    (folder / "words.py").write_text("from first import TOOLS as OTHERS\n")
    for name in ("_draft", "test_first", "conftest"):
        (folder / f"{name}.py").write_text("raise RuntimeError\n")
    assert offered(site, str(folder)) == ["wave_first", "wave_second"] * 2
    (folder / "second.py").write_text("\n\ndef wave(:\n")
    code, written = run(site, str(folder))
    assert code != 0
    assert f"{folder / 'second.py'}, line 3: SyntaxError" in written.splitlines()[-1]


def test_a_folder_may_be_a_package_whose_modules_import_each_other(site: Path, tmp_path: Path) -> None:
    package = tmp_path / "project" / "pack"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").write_text("NAME = 'wave_pack'\n")
    text = TOOLS.replace('tool("NAME")', "tool(NAME)")
    (package / "mine.py").write_text(f"from .words import NAME\n{text}")
    assert offered(site, str(package)) == ["wave_pack", "wave_pack"]
    (package / "mine.py").unlink()
    code, written = run(site, str(package))
    assert code != 0
    assert f"No module in the folder {package} has tools" in written


FUNCTION = """
from outlast import tool

@tool
def wave() -> str:
    return "waves"
"""
_MISTAKES = {
    "an unfinished tool beside others": (
        FUNCTION + "OTHER = tool('other')\n",
        "the tool 'other' (OTHER) is not finished: call .build() at its end, and list it in TOOLS.",
    ),
    "a name with a space": (TOOLS.replace("NAME", "my tool!"), "Tool 'my tool!': a name has 1 to 64 letters"),
    "a function defined twice": (
        FUNCTION + FUNCTION,
        "defines wave more than once, in lines 4, 10: rename",
    ),
    "an exit at the import": ("import sys\nsys.exit(3)\n", "line 2: the module ends the process when it is imported."),
    "a tool that is not listed": (
        TOOLS.replace("NAME", "wave_it").replace("TOOLS = [", "MINE = ").replace("build()]", "build()"),
        "has no tools: write TOOLS = [MINE].",
    ),
}


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_a_module_is_named_with_its_solution(site: Path, mistake: str) -> None:
    text, problem = _MISTAKES[mistake]
    (site / "waving" / "tools.py").write_text(text)
    code, written = run(site, ENTRY)
    assert code != 0
    assert problem in written.strip().splitlines()[-1]
