"""import-linter checks the direction of imports; here is the proof that its contracts bite, and what it cannot see."""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
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
        "Only the command line": ("api/tasks/shares.py", "import outlast.deploy.local.config"),
        "What the front doors share": ("api/offer/planned_runs.py", "import mcp"),
        "Contracts lie": ("activities/dispatch/contracts.py", "import httpx"),
        "Contracts that": ("outlast/contracts/usage.py", "import fastapi"),
        "Workflow code": ("workflows/contracts/tool_calls.py", "import apify_client"),
        "Tools:": ("workflows/tools/core/actor_names.py", "import outlast.workflows.tools.default.call_actor"),
    }
    for path, line in forbidden.values():
        with (house / path).open("a") as file:
            file.write(f"\n{line}\n")
    assert len(forbidden) == len(CONTRACTS), "each contract of pyproject.toml is broken once"
    broken = lint_imports(house)
    told = [line for line in broken.stdout.splitlines() if " BROKEN" in line]
    assert broken.returncode != 0
    for contract in forbidden:
        assert any(line.startswith(contract) for line in told), f"{contract} was not noticed:\n{broken.stdout}"


def test_every_module_of_contracts_of_the_lowest_floor_lies_on_the_ground() -> None:
    (ground,) = (contract for contract in CONTRACTS if contract["name"].startswith("Contracts lie"))
    there = {
        "outlast." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "activities").rglob("contracts.py")
    }
    assert there - set(ground["source_modules"]) == set()


_MODE_NAMES = frozenset({"mode", "ui_mode"})
_LOOK_UPS = frozenset({"get", "pop", "setdefault", "index", "count", "__getitem__", "__contains__"})
_FIND_MODES = ("workflows/tools/registry.py", "workflows/tools/loader.py")
"""Where a mode is found by its name, once per call."""
_WINDOWS_OF_A_BROWSER = "workflows/tools/common/list_tabs.py"
"""Windows have a mode too: normal or incognito."""


def branches_on_a_mode(source: str) -> Iterator[int]:
    """The lines where code asks which mode it is in: by comparing it, by looking it up, or by reading its text."""
    tree = ast.parse(source)
    names = set(_MODE_NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_mode(node.value, names):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return (node.lineno for node in ast.walk(tree) if any(_is_mode(part, names) for part in _asked(node)))  # type: ignore[attr-defined]


def _is_mode(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _MODE_NAMES or (node.attr == "name" and _is_mode(node.value, names))
    return isinstance(node, ast.Name) and node.id in names


def _asked(node: ast.AST) -> list[ast.expr]:
    """What decides in `node`, if anything does."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return [node.func.value, *(node.args if node.func.attr in _LOOK_UPS else ())]
    return []


def test_no_handler_asks_which_mode_it_is_in() -> None:
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / "workflows").rglob("*.py")}
    handlers = {
        name: path for name, path in files.items() if not name.startswith((*_FIND_MODES, _WINDOWS_OF_A_BROWSER))
    }
    assert len(handlers) > 100
    assert [f"{name}:{line}" for name, path in handlers.items() for line in branches_on_a_mode(path.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        'if ctx.mode == "openai": ...',
        'if "openai" != mode: ...',
        "if ctx.call.mode == OPENAI: ...",
        "if mode in UI_MODES: ...",
        'if mode in ("openai", "apps"): ...',
        "x = mode is modes.OPENAI",
        "match ctx.mode:\n    case _: ...",
        'if ctx.mode.startswith("open"): ...',
        "PRESENTERS[ctx.call.mode](run)",
        "PRESENTERS.get(mode, plain)(run)",
        'chosen = ctx.call.mode\nif chosen == "openai": ...',
        'if self._mode.mode.name == "openai": ...',
    ],
)
def test_asking_for_the_mode_would_be_noticed(line: str) -> None:
    assert list(branches_on_a_mode(line)) == [line.count("\n") + 1 if line.startswith("chosen") else 1]


@pytest.mark.parametrize("line", ["start(tool, mode=mode)", "call = ToolCall(mode=ctx.call.mode)", "presenter(mode)"])
def test_passing_the_mode_on_is_no_branch(line: str) -> None:
    assert list(branches_on_a_mode(line)) == []


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


def test_whoever_takes_the_first_of_a_list_has_no_longer_one_fetched() -> None:
    """`limit` alone stops after so many; Temporal's client fetches pages of 1,000 all the same."""
    calls = [
        (str(path.relative_to(ROOT)), {keyword.arg for keyword in node.keywords})
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "list_workflows"
    ]
    assert len(calls) > 5
    assert [path for path, named in calls if "limit" in named and "page_size" not in named] == []
