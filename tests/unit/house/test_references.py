"""What prose names by its place exists: folders and files in documents, modules in docstrings."""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLOORS = ("workflows", "activities", "worker", "api", "deploy")
PLACES = re.compile(rf"`((?:{'|'.join(FLOORS)}|tests|docs)/[\w./-]*)")
MODULES = re.compile(r"`((?:outlast|tests)(?:\.\w+)+)`")
OLD_NAMES = re.compile(
    rf"python (?:-P )?-m (?:{'|'.join(FLOORS)})\b|^\s*(?:from|import) (?:{'|'.join(FLOORS)})[. ]", re.MULTILINE
)
GROUPS = {"outlast.tools", "outlast.worker", "outlast.api"}
"""Dotted names that are no modules: the group of entry points, names of loggers."""
SPANS = "".join((ROOT / path).read_text() for path in ("activities/spans.py", "worker/otlp/call_spans.py"))
"""Where the attributes of spans are, which are no modules either."""


def committed(*suffixes: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = (ROOT / name for name in listing.split("\0") if name.endswith(suffixes))
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def missing_places(text: str) -> Iterator[str]:
    for place in PLACES.findall(text):
        if not (ROOT / place).exists():
            yield place


def missing_modules(text: str) -> Iterator[str]:
    for name in MODULES.findall(text):
        if name not in GROUPS and f'"{name}"' not in SPANS and not _exists(name.split(".")):
            yield name


def _exists(parts: list[str]) -> bool:
    """Whether the dotted name is a module, or a name that stands in one."""
    for length in range(len(parts), 0, -1):
        path, rest = ROOT.joinpath(*parts[:length]), parts[length:]
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if module.is_file():
            return not rest or re.search(rf"\b{rest[0]}\b", module.read_text()) is not None
        if path.is_dir():
            return not rest
    return False


def findings(paths: list[Path], find: Callable[[str], Iterable[str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in find(path.read_text())]


def test_places_that_documents_name_exist() -> None:
    assert findings(committed(".md"), missing_places) == []


def test_modules_that_prose_names_exist() -> None:
    assert findings(committed(".md", ".py"), missing_modules) == []


def test_nothing_is_started_or_imported_by_the_bare_name_of_a_floor() -> None:
    prose_and_code = [
        path for path in committed(".md", ".py", ".yml", ".toml", "Makefile", "run") if path != Path(__file__)
    ]
    assert findings(prose_and_code, OLD_NAMES.findall) == []


@pytest.mark.parametrize(
    ("text", "finds"),
    [("see `activities/nowhere.py`", "activities/nowhere.py"), ("see `docs/index.md`", None), ("`api/rest/`", None)],
)
def test_a_place_that_is_gone_is_noticed(text: str, finds: str | None) -> None:
    assert list(missing_places(text)) == ([finds] if finds else [])


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("see `outlast.activities.nowhere`", "outlast.activities.nowhere"),
        ("see `outlast.activities.contracts.Nobody`", "outlast.activities.contracts.Nobody"),
        ("see `outlast.activities.contracts.Caller`", None),
        ("see `outlast.activities.runs`", None),
    ],
)
def test_a_module_that_is_gone_is_noticed(text: str, finds: str | None) -> None:
    assert list(missing_modules(text)) == ([finds] if finds else [])
