"""A package offers its tools by the entry point `outlast.tools`: whoever has installed it names it nowhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.module_process import ModuleProcess

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


def test_an_installed_package_offers_its_tools_in_every_mode(site: Path) -> None:
    assert offered(site) == ["wave_waving", "wave_waving"]


def test_a_package_that_is_also_named_is_loaded_once(site: Path) -> None:
    assert offered(site, "waving.tools") == ["wave_waving", "wave_waving"]


def test_entry_points_of_others_are_left_alone_and_modules_may_be_named(site: Path) -> None:
    installed(site, "other", group="somebody.else")
    assert offered(site) == ["wave_waving", "wave_waving"]
    assert offered(site, "other.tools") == ["wave_other", "wave_waving"] * 2


def test_an_installed_package_that_is_broken_is_named(site: Path) -> None:
    (site / "waving" / "tools.py").write_text("TOOLS = 1")
    code, written = run(site)
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
    code, written = run(site)
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
    code, written = run(site)
    assert code != 0
    assert "the arguments of tool 'wave_odd' have no JSON Schema" in written
