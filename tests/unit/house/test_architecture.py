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
        "Front doors": ("api/adapters/adapter.py", "import outlast.api.rest.task_routes"),
        "Only the command line": ("api/tasks/fair_queue.py", "import outlast.deploy.local.config"),
        "What the front doors share": ("api/catalog/catalog.py", "import mcp"),
        "Contracts lie": ("activities/dispatch/contracts.py", "import httpx"),
        "Contracts that": ("outlast/contracts/operations.py", "import fastapi"),
        "Activities": ("activities/platform/platform_fence.py", "import outlast.activities.runs.reads"),
        "Workflow code": ("workflows/contracts/tool_calls.py", "import apify_client"),
        "Sandbox:": ("deploy/local/sandbox/runs.py", "import outlast.deploy.local.sandbox.platform"),
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
_FIND_MODES = ("workflows/tools/registry.py", "workflows/tools/registry.py")
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
    ("line", "asks"),
    [
        ('if ctx.mode == "openai": ...', True),
        ("match ctx.mode:\n    case _: ...", True),
        ("PRESENTERS.get(mode, plain)(run)", True),
        ('chosen = ctx.call.mode\nif chosen == "openai": ...', True),
        ("call = ToolCall(mode=ctx.call.mode)", False),
    ],
)
def test_a_branch_on_the_mode_is_noticed(line: str, asks: bool) -> None:
    assert bool(list(branches_on_a_mode(line))) is asks


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
