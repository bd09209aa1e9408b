"""The pytest plugin, in a project of its own: one stack for all tests of a session, with the project's tools."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.slow

TOOLS = '''
from outlast import tool

@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number
'''
TESTS = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_double(outlast_stack, number):
    with outlast_stack.client() as client:
        assert client.call("double", {"number": number}).structured == {"result": 2 * number}
    print("stack:", outlast_stack.url)
"""


def test_the_fixture_is_one_stack_with_the_tools_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    (tmp_path / "test_my_tools.py").write_text(TESTS)
    (tmp_path / "test_example.py").write_text((ROOT / "docs" / "examples" / "test_hello_stack.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\noutlast_tools = my_tools.py docs.examples.hello_tools\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout
    stacks = [line for line in ended.stdout.splitlines() if "stack:" in line]
    assert len(stacks) == 2
    assert len({line.partition("stack:")[2] for line in stacks}) == 1
