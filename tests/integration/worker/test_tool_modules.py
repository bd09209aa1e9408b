"""Modules of tools that cannot be used: every process that loads them says why in one line, with file and line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.stacks.service import SEAL_KEYS
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.timeout(300)  # each process imports all of Outlast

TAKEN_NAME = """
from outlast import Category, plain, tool

@plain
async def wave(args): ...

TOOLS = [tool("call-actor").category(Category.DEV).describe("Mine.").server(wave).build()]
"""
BROKEN = {
    "a syntax error": ("\n\ndef wave(:\n    pass\n", "my_tools.py, line 3: SyntaxError"),
    "an import inside it that fails": (
        "import json\nimport no_such_thing\n",
        "my_tools.py, line 2: ModuleNotFoundError",
    ),
    "a name that is taken": (
        TAKEN_NAME,
        "my_tools.py): There is a tool 'call-actor' already; choose another name.",
    ),
    "a tool without a handler": (
        "from outlast import tool\n\nTOOLS = [tool('mine').build()]\n",
        "my_tools.py, line 3: ValueError: Tool 'mine' has no handler",
    ),
    "no tools": ("TOOLS = None\n", "my_tools.py) has no tools: write @tool above a function."),
    "a builder that was not finished": (
        "from outlast import tool\n\nWAVE = tool('wave').describe('Waves.')\n",
        "my_tools.py): the tool 'wave' (WAVE) is not finished: call .build() at its end, and list it in TOOLS.",
    ),
    "an entry that is no tool": (
        "def wave(): ...\n\nTOOLS = [wave]\n",
        "my_tools.py): TOOLS contains function, which is not a tool: write @tool above the function",
    ),
    "a name that models do not take": (
        "from outlast import tool\n\n@tool(name='my tool!')\ndef wave(): ...\n",
        "my_tools.py, line 3: ValueError: Tool 'my tool!': a name has 1 to 64 letters, digits, `_` or `-`.",
    ),
    "a parameter without a type": (
        "from outlast import tool\n\n@tool\ndef wave(times): ...\n",
        "my_tools.py, line 3: ValueError: @tool on wave: parameter 'times' has no type. Write `times: str`",
    ),
}


def started(module: str, folder: Path, temporal: TemporalServer) -> "subprocess.CompletedProcess[str]":
    """A process as a user starts it, in a folder with `my_tools.py`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", module],
        cwd=folder,
        env=clean_environment(
            PATH=os.environ["PATH"],
            TEMPORAL_ADDRESS=temporal.address,
            OUTLAST_SEAL_KEYS=SEAL_KEYS,
            OUTLAST_DATA_DIR=str(folder / "data"),
            OUTLAST_TOOLS_FROM="my_tools",
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


ALWAYS = ("a name that is taken", "a tool without a handler")
# Both processes load tools with the same function: one flaw is enough to see that the API does.
CASES = [
    ("outlast.api", "a syntax error"),
    *(pytest.param("outlast.worker", flaw, marks=() if flaw in ALWAYS else pytest.mark.thorough) for flaw in BROKEN),
]


@pytest.mark.parametrize(("module", "flaw"), CASES)
def test_a_broken_module_of_tools_is_one_line(
    tmp_path: Path, temporal_server: TemporalServer, module: str, flaw: str
) -> None:
    source, said = BROKEN[flaw]
    (tmp_path / "my_tools.py").write_text(source)
    done = started(module, tmp_path, temporal_server)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert str(tmp_path / said.split(",")[0].split(")")[0]) in lines[0]
    assert said in lines[0]


def test_a_module_that_is_not_there_is_one_line_that_says_where_it_was_looked_for(
    tmp_path: Path, temporal_server: TemporalServer
) -> None:
    done = started("outlast.worker", tmp_path, temporal_server)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"there is no module 'my_tools' in {tmp_path}" in done.stderr


def test_the_users_folder_takes_no_modules_place(tmp_path: Path, temporal_server: TemporalServer) -> None:
    """Their `tabnanny.py` is not the library's, which nothing has loaded before, and their tools are still found."""
    (tmp_path / "tabnanny.py").write_text("raise RuntimeError('the wrong module')\n")
    (tmp_path / "my_tools.py").write_text("import tabnanny\n\nTOOLS = tabnanny.check and None\n")
    done = started("outlast.worker", tmp_path, temporal_server)
    assert "has no tools" in done.stderr, done.stderr
