"""A package offers its tools by the entry point `outlast.tools`: whoever has installed it names it nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
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
# In a process of its own: what a process has loaded it keeps.
OFFERED = """
import json
from outlast.api.services import build_services
from outlast.workflows.tools.extensions import load_extensions
from outlast.workflows.tools.registry import tools_of

load_extensions(NAMED)
load_extensions(NAMED)
print(json.dumps([each.name for mode in ("default", "openai") for each in tools_of(mode) if "wave" in each.name]))
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


def run(site: Path, named: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", OFFERED.replace("NAMED", repr(named))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
        capture_output=True,
        text=True,
        check=False,
    )


def offered(site: Path, *named: str) -> Any:
    done = run(site, list(named))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
    done = run(site, [])
    assert done.returncode != 0
    assert "ExtensionError" in done.stderr
    assert "waving.tools" in done.stderr


_WITHOUT_SCHEMA = {
    "arguments": ".args(Odd)",
    "answers": ".output(Odd)",
}


@pytest.mark.parametrize("part", _WITHOUT_SCHEMA)
def test_a_tool_whose_schema_cannot_be_made_is_named_at_the_start(site: Path, part: str) -> None:
    text = TOOLS.replace("NAME", "wave_odd").replace(".args(NoArguments)", _WITHOUT_SCHEMA[part])
    (site / "waving" / "tools.py").write_text(ODD + text.replace("args: NoArguments", "args"))
    done = run(site, [])
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("outlast.workflows.tools.extensions.ExtensionError: Tools of module 'waving.tools'")
    assert f"the {part} of tool 'wave_odd' have no JSON Schema: PydanticInvalidForJsonSchema: " in last


def test_a_tool_of_a_mode_without_a_schema_is_named_at_the_start_too(site: Path) -> None:
    text = (
        TOOLS.replace("NAME", "wave_odd").replace(".args(NoArguments)", ".args(Odd)").replace("TOOLS = ", "OF_MODE = ")
    )
    mode = MODE + "TOOLS = []\nMODES = [replace(default.MODE, name='waves', tools=(*default.MODE.tools, *OF_MODE))]\n"
    (site / "waving" / "tools.py").write_text(ODD + text.replace("args: NoArguments", "args") + mode)
    done = run(site, [])
    assert done.returncode != 0
    assert "the arguments of tool 'wave_odd' have no JSON Schema" in done.stderr
