"""Rules of this house that no linter knows: sizes, what may be committed, one version of everything."""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_MODULES = 20
DRAWERS = {"utils.py", "helpers.py", "common.py", "misc.py"}
FLOORS = {"api", "worker", "workflows", "activities", "deploy", "outlast"}
SAME_ROLE = frozenset(
    "activities answer app areas arguments client command connection contracts definition dialect errors events "
    "instructions limits metrics options pieces registry removal server settings starter transport verify "
    "views wording".split()
)
"""What a module is in its room: the same in each."""
SAME_SUBJECT = frozenset(
    "actors anthropic_messages backup batch_results batches cards datasets failures handoffs input_schema issuer "
    "key_value_stores ledger openai_chat openai_responses operations outputs pages payments permissions "
    "plain_functions platform_reads policy "
    "problems providers questions request_queues rows run_log runs saved_calls saved_tasks schedules search_attributes "
    "selection sessions signed_links spending storages subscriptions tasks tools turns usage users violations "
    "webhooks".split()
)
"""What modules of several floors or rooms are about: one thing, and each has its part of the work with it."""
TOOLS_OF_MODES = frozenset(
    "abort_actor_run call_actor call_actor_task create_actor_task fetch_actor_details fetch_apify_docs get_actor_run "
    "get_actor_run_list get_dataset_items get_key_value_store_record present_run schedule_tools search_actors "
    "search_apify_docs".split()
)
"""Tools that several modes define, each in a module with the tool's name."""
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


def test_no_function_is_over_its_size(modules: list[Path]) -> None:
    too_long = [name for path in modules for name, size in _functions(path) if size > MAX_FUNCTION_LINES]
    assert too_long == []


def test_no_module_is_a_drawer_for_everything(modules: list[Path]) -> None:
    assert [str(path.relative_to(ROOT)) for path in modules if path.name in DRAWERS] == []


def test_no_folder_is_flat(modules: list[Path]) -> None:
    folders = Counter(path.parent.relative_to(ROOT) for path in modules if path.name != "__init__.py")
    assert {str(folder): number for folder, number in folders.items() if number > MAX_MODULES} == {}


def recurring_names(modules: list[Path]) -> set[str]:
    """The names that several modules of the floors have, and of the stack. Actors and dashboards are left out: an Actor
    is a program of its own, and a dashboard has the name of what it shows.
    """
    floors = [path for path in modules if path.relative_to(ROOT).parts[0] in FLOORS]
    apart = (ROOT / "deploy" / "local" / "actors", ROOT / "deploy" / "grafana")
    names = Counter(path.stem for path in floors if not any(path.is_relative_to(folder) for folder in apart))
    return {name for name, number in names.items() if number > 1} - {"__init__", "__main__"}


def test_modules_of_one_name_are_about_the_same(modules: list[Path]) -> None:
    """Who gives a module a name that there is already, adds it to one of the lists, or finds a name that says more."""
    found = recurring_names(modules)
    assert found - SAME_ROLE - SAME_SUBJECT - TOOLS_OF_MODES == set()
    assert (SAME_ROLE | SAME_SUBJECT | TOOLS_OF_MODES) - found == set(), "these names are unique by now"


def test_the_copies_of_a_module_of_actors_are_equal(modules: list[Path]) -> None:
    """The folder of an Actor is built alone, so what several of them need lies in each."""
    copies: dict[str, set[str]] = {}
    for path in modules:
        if path.name in COPIED and path.is_relative_to(ROOT / "deploy" / "local" / "actors"):
            copies.setdefault(path.name, set()).add(path.read_text())
    assert {name: len(texts) for name, texts in copies.items()} == dict.fromkeys(COPIED, 1)


def test_every_module_and_package_says_what_it_is_for(modules: list[Path]) -> None:
    ours = [path for path in modules if not path.is_relative_to(ROOT / "tests")]
    assert [str(path.relative_to(ROOT)) for path in ours if not ast.get_docstring(ast.parse(path.read_text()))] == []


ODD_WORDS = re.compile(
    r"\b(anew|whoever|fellows|beneath|foresaw|thereof|hitherto|giants?|that there (is|are) not|goes without saying|"
    r"cannot be had|is had|(has|have) come to(?! an end)|of whose|its like|their like)\b",
    re.IGNORECASE,
)
"""Words and turns that a reader of technical English stumbles over, each with a usual one: again, anyone, below, ..."""


def test_prose_uses_the_usual_words(files: list[Path]) -> None:
    """In documents, and in the docstrings, comments and messages of the floors."""
    prose = [path for path in files if path.suffix == ".md" and not path.is_relative_to(ROOT / "tests")]
    code = [path for path in files if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in FLOORS]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word[0]}"
        for path in [*prose, *code]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (word := ODD_WORDS.search(line)) is not None
    ]
    assert found == []


def test_nothing_committed_names_this_machine_or_a_package_registry(files: list[Path]) -> None:
    found = [str(path.relative_to(ROOT)) for path in files if ADDRESSES_OF_HERE.search(_text(path))]
    assert found == []


LOCKS = (ROOT / "requirements.lock", *sorted((ROOT / "deploy" / "images").glob("*.lock")))


LOCKS_OF_PEERS = sorted((ROOT / "tests" / "benchmarks" / "peers" / "locks").glob("*.lock"))


@pytest.mark.parametrize("lock", [*LOCKS, *LOCKS_OF_PEERS], ids=lambda path: path.name)
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
        "outlast.lock": own,
        "embedded.lock": [*own, *extras["embedded"]],
        "build.lock": of_images,
    }
    for lock in LOCKS:
        names = {re.split(r"[\[<>=~! ;]", name)[0].lower().replace("_", "-") for name in declared[lock.name]}
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


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
