"""import-linter checks the direction of imports; here is the proof that its contracts bite, and what it cannot see."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLOORS = ("workflows", "activities", "worker", "api", "deploy")
LINT = Path(sys.executable).with_name("lint-imports")


def lint_imports(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(LINT), "--no-cache", "--no-logo"], cwd=folder, capture_output=True, text=True, check=False, timeout=110
    )


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages and of the contracts, to be broken."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for floor in FLOORS:
        copied = ROOT / floor
        shutil.copytree(copied, tmp_path / floor, ignore=shutil.ignore_patterns("__pycache__", "src"))
    shutil.copytree(ROOT / "outlast", tmp_path / "outlast", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_point_down_and_each_contract_notices_when_they_do_not(house: Path) -> None:
    kept = lint_imports(house)
    assert kept.returncode == 0, kept.stdout
    forbidden = {
        "Floors": ("activities/failures/classify.py", "import outlast.workflows.contracts.tool_calls"),
        "The stack": ("deploy/local/plan.py", "import outlast.api.settings"),
        "Front doors": ("api/adapters/runner.py", "import outlast.api.rest.task_routes"),
        "Contracts lie": ("activities/contracts.py", "import httpx"),
        "Workflow code": ("workflows/contracts/tool_calls.py", "import apify_client"),
        "Tools:": ("workflows/tools/core/actor_names.py", "import outlast.workflows.tools.default.call_actor"),
    }
    for path, line in forbidden.values():
        with (house / path).open("a") as file:
            file.write(f"\n{line}\n")
    broken = lint_imports(house)
    told = [line for line in broken.stdout.splitlines() if " BROKEN" in line]
    assert broken.returncode != 0
    for contract in forbidden:
        assert any(line.startswith(contract) for line in told), f"{contract} was not noticed:\n{broken.stdout}"


def comparisons_of_a_mode(path: Path) -> Iterator[str]:
    """Where code asks which mode it is in, as `mode == ...`, `mode in ...` or `match mode`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare | ast.Match):
            continue
        compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.subject]
        names = {part.id if isinstance(part, ast.Name) else getattr(part, "attr", "") for part in compared}
        literal = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in compared)
        if names & {"mode", "ui_mode"} and (literal or isinstance(node, ast.Match)):
            yield f"{path.relative_to(path.parents[2])}:{node.lineno}"


def test_no_handler_asks_which_mode_it_is_in() -> None:
    assert [hit for path in (ROOT / "workflows").rglob("*.py") for hit in comparisons_of_a_mode(path)] == []


def test_asking_for_the_mode_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "a" / "b" / "handler.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        'def f(ctx, mode):\n    if ctx.mode == "openai":\n        pass\n    if "openai" != mode:\n        pass\n'
    )
    assert [hit.rpartition(":")[2] for hit in comparisons_of_a_mode(module)] == ["2", "4"]


@pytest.mark.parametrize("line", ["import api", "from workflows.tools import registry", "import worker.settings"])
def test_a_floor_imported_without_outlast_is_refused(tmp_path: Path, line: str) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    (tmp_path / "module.py").write_text(f"{line}\n")
    command = [str(ruff), "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), "--select", "TID251", "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "TID251" in checked.stdout, checked.stdout + checked.stderr


def test_no_module_of_a_floor_is_loaded_by_another_name() -> None:
    """In a test process the repository is on the path, so `import api` would work there, and be another module."""
    files = {name: Path(getattr(module, "__file__", None) or "/").resolve() for name, module in sys.modules.items()}
    actors = ROOT / "deploy" / "local" / "actors"
    of_floors = {
        name
        for name, file in files.items()
        if any(file.is_relative_to(ROOT / floor) for floor in FLOORS) and not file.is_relative_to(actors)
    }
    assert {name for name in of_floors if not name.startswith("outlast.")} == set()
