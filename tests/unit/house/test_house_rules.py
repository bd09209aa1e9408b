"""Rules of this house that no linter knows: sizes, what may be committed, one version of everything."""

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAX_FILE_LINES = 800
MAX_MODULES = 30
MIN_LINES_OF_A_PART = 60
MAX_SMALL_PARTS = 20
"""Small modules that belong to their only importer. Lower this number, never raise it."""
SMALL_PARTS_THAT_STAY: dict[str, str] = {}
"""Modules that stay apart, with the reason: process entry points, modules that break an import cycle."""
DRAWERS = {"utils.py", "helpers.py", "common.py", "misc.py"}
FLOORS = {"api", "worker", "workflows", "activities", "deploy", "outlast"}
COPIED = {"interruption.py"}
# Written in pieces, so that this file does not break its own rule.
ADDRESSES_OF_HERE = re.compile(
    "|".join(["/work" + "/", "pythonhosted" + r"\.org", "pypi" + r"\.org/", "registry" + r"\.npmjs"])
)


def committed_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return committed_files()


@pytest.fixture(scope="module")
def modules(files: list[Path]) -> list[Path]:
    return [path for path in files if path.suffix == ".py"]


def test_no_file_is_over_its_size(modules: list[Path]) -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_module_is_a_drawer_for_everything(modules: list[Path]) -> None:
    assert [str(path.relative_to(ROOT)) for path in modules if path.name in DRAWERS] == []


def test_no_folder_is_flat(modules: list[Path]) -> None:
    folders = Counter(path.parent.relative_to(ROOT) for path in modules if path.name != "__init__.py")
    assert {str(folder): number for folder, number in folders.items() if number > MAX_MODULES} == {}


def test_a_small_module_with_one_user_beside_it_is_part_of_that_user(modules: list[Path]) -> None:
    """Modules that only a package's `__init__` imports are exempt: a registry has one module per entry."""
    parts = sorted(small_parts(modules) - SMALL_PARTS_THAT_STAY.keys())
    assert len(parts) <= MAX_SMALL_PARTS, f"fold these into the module that imports them: {parts}"


def small_parts(paths: list[Path]) -> set[str]:
    """The modules under 60 lines that exactly one module imports, which lies in the same folder."""
    modules = {_dotted(path): path for path in paths if path.relative_to(ROOT).parts[0] in FLOORS}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in set(_imports(path)) & modules.keys():
            importers[imported].add(name)
    return {
        name
        for name, users in importers.items()
        if modules[name].name != "__init__.py"
        and len(users) == 1
        and all(name.rpartition(".")[0] == user.rpartition(".")[0] for user in users)
        and len(modules[name].read_text().splitlines()) < MIN_LINES_OF_A_PART
    }


def test_the_copies_of_a_module_of_actors_are_equal(modules: list[Path]) -> None:
    """The folder of an Actor is built alone, so what several of them need lies in each."""
    copies: dict[str, set[str]] = {}
    for path in modules:
        if path.name in COPIED and path.is_relative_to(ROOT / "deploy" / "local" / "actors"):
            copies.setdefault(path.name, set()).add(path.read_text())
    assert {name: len(texts) for name, texts in copies.items()} == dict.fromkeys(COPIED, 1)


def test_nothing_committed_names_this_machine_or_a_package_registry(files: list[Path]) -> None:
    found = [str(path.relative_to(ROOT)) for path in files if ADDRESSES_OF_HERE.search(_text(path))]
    assert found == []


LOCKS = (ROOT / "requirements.lock", *sorted((ROOT / "deploy" / "images").glob("*.lock")))


LOCKS_OF_TESTS = sorted((ROOT / "tests").rglob("*.lock"))


@pytest.mark.parametrize("lock", [*LOCKS, *LOCKS_OF_TESTS], ids=lambda path: path.name)
def test_a_lock_holds_hashes_and_no_addresses(lock: Path) -> None:
    text = lock.read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text


INSTALLED_FROM_LOCKS = (ROOT / "Makefile", ROOT / "deploy" / "images" / "Dockerfile")


@pytest.mark.parametrize("file", INSTALLED_FROM_LOCKS, ids=lambda path: path.name)
def test_a_lock_is_installed_without_a_resolver(file: Path) -> None:
    """Older versions of pip take the newest `name[extra]` where the lock names `name` alone, and then miss its hash."""
    commands = file.read_text().replace("\\\n", " ").splitlines()
    installs = [command for command in commands if "--require-hashes" in command]
    assert installs != []
    assert [install for install in installs if "--no-deps" not in install] == []


def test_every_declared_dependency_is_in_the_locks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups, extras = dict(project["dependency-groups"]), project["project"]["optional-dependencies"]
    own, of_images = project["project"]["dependencies"], groups.pop("image")
    declared = {
        "requirements.lock": [*own, *(name for group in (*groups.values(), *extras.values()) for name in group)],
        "outlast.lock": [*own, *extras["server"], *extras["models"]],
        "embedded.lock": [*own, *(name for extra in extras.values() for name in extra)],
        "build.lock": of_images,
    }
    for lock in LOCKS:
        names = {re.split(r"[\[<>=~! ;]", name)[0].lower().replace("_", "-") for name in declared[lock.name]} - {
            "outlast"
        }
        assert names - set(_locked(lock)) == set(), f"run `make lock`: {lock.name}"


def test_images_install_the_versions_that_are_tested() -> None:
    tested = _locked(ROOT / "requirements.lock")
    for lock in LOCKS[1:]:
        locked = _locked(lock)
        assert {name: locked[name] for name in locked.keys() & tested.keys() if locked[name] != tested[name]} == {}
        assert lock.name == "build.lock" or locked.keys() <= tested.keys()


def _locked(lock: Path) -> dict[str, str]:
    """The versions of a lock, by package; several where they differ by platform."""
    found: dict[str, str] = {}
    for name, version in re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", lock.read_text(), re.MULTILINE):
        found[name] = f"{found[name]} {version}" if name in found else version
    return found


def _dotted(path: Path) -> str:
    """The name that a module of the product is imported by."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "outlast" else ("outlast", *parts)).removesuffix(".__init__")


def _imports(path: Path) -> Iterator[str]:
    """The names of all modules that a module may import; `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
