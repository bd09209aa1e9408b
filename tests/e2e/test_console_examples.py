"""The console examples of README and docs print what the pages say, on a stack that `outlast up` has started."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console_examples import console_page
from tests.support.needs import require
from tests.support.paths import ROOT
from tests.support.stacks.outlast_up import RunningStack, running_stack

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if console_page(page)[0].examples]
READ_FIRST = {"README.md", "docs/getting-started.md"}
"""The pages whose examples run in `make test-all`; those of the others run in `make thorough`."""


def parameter(page: Path):
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=() if name in READ_FIRST else pytest.mark.thorough)


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Actor that docs/getting-started.md has its reader write, file by file."""
    folder = tmp_path_factory.mktemp("my-actors")
    page = (ROOT / "docs" / "getting-started.md").read_text()
    files = re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in files:
        file = folder / "word-counter" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert len(files) == 3
    return folder


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, actors: Path) -> Iterator[RunningStack]:
    data_dir = tmp_path_factory.mktemp("examples") / "data"
    with running_stack(data_dir, "--actors", str(actors), OUTLAST_TOOL_MASKING="true") as stack:
        yield stack


def run(command: str, stack: RunningStack, folder: Path) -> tuple[str, int]:
    """What a reader sees who types a command in a clone beside this stack, and the command's exit code."""
    places = {
        "http://127.0.0.1:8400": str(stack.addresses.api_url),
        "http://127.0.0.1:8401": str(stack.addresses.sandbox_url),
        "http://127.0.0.1:8402/metrics": str(stack.addresses.metrics_url),
        "http://127.0.0.1:8233": str(stack.addresses.temporal_ui_url),
        "127.0.0.1:7233": str(stack.addresses.temporal_address),
        ".outlast": str(stack.data_dir),
        ".venv/": f"{ROOT}/.venv/",
    }
    for shown, actual in places.items():
        command = command.replace(shown, actual)
    environment = {
        **stack.environment,
        "COLUMNS": "160",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    if "temporal " in command:
        environment["TEMPORAL_ADDRESS"] = str(stack.addresses.temporal_address)
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    output = ended.stdout
    for shown, actual in places.items():
        output = output.replace(actual, shown)
    return output, ended.returncode


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder that looks like a clone to the commands of examples, and that they may write into."""
    for name in ("deploy", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("path", [parameter(page) for page in WITH_EXAMPLES])
def test_the_examples_of_a_page_print_what_it_says(path: Path, stack: RunningStack, clone: Path) -> None:
    page, _ = console_page(path)
    if any("curl " in page.command(example) for example in page.examples):
        require("curl")
    wrong: list[str] = []
    for example in page.examples:
        output, exit_code = run(page.command(example), stack, clone)
        difference = page.difference(example, output, exit_code)
        if difference is not None:
            wrong.append(f"{path.relative_to(ROOT)}:{example.line}: {difference}")
    assert not wrong, "\n\n".join(wrong)


def test_what_is_not_run_says_why() -> None:
    reasons = [reason for page in PAGES for reason in console_page(page)[1].values()]
    assert all(len(reason.split()) >= 3 for reason in reasons)
