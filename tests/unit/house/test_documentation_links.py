"""What documents and docstrings name exists: pages, headings, files, modules; and pictures match their sources."""

import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import DOCS, ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```", re.DOTALL)
FILES = re.compile(r"`((?:workflows|activities|worker|api|deploy|tests|docs)/[\w./-]*)")
MODULES = re.compile(r"`((?:outlast|tests)(?:\.\w+)+)`")
GROUPS = {"outlast.tools", "outlast.worker", "outlast.api"}
"""Dotted names that are no modules: the group of entry points, names of loggers."""
SPANS = "".join(
    (ROOT / path).read_text()
    for path in (
        "activities/spans.py",
        "activities/llm/activities.py",
        "activities/mcp_servers/servers.py",
        "worker/otlp/call_spans.py",
    )
)
"""The modules with the attributes of spans, whose names look like modules."""


def committed(*suffixes: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = (ROOT / name for name in listing.split("\0") if name.endswith(suffixes))
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def headings(page: Path) -> set[str]:
    """The ids that GitHub and the embedded documentation site give to headings."""
    found = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def leads_nowhere(page: Path, link: str) -> bool:
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or bool(fragment and fragment not in headings(target))


def missing_files(text: str) -> list[str]:
    return [name for name in FILES.findall(text) if not (ROOT / name).exists()]


def missing_modules(text: str) -> list[str]:
    named = (name for name in MODULES.findall(text) if name not in GROUPS and f'"{name}"' not in SPANS)
    return [name for name in named if not _exists(name.split("."))]


def _exists(parts: list[str]) -> bool:
    """Whether the dotted name is a module, or a name in one."""
    for length in range(len(parts), 0, -1):
        path, rest = ROOT.joinpath(*parts[:length]), parts[length:]
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if module.is_file():
            stub = module.with_suffix(".pyi")  # names that are loaded when they are first used
            text = module.read_text() + (stub.read_text() if stub.is_file() else "")
            return not rest or re.search(rf"\b{rest[0]}\b", text) is not None
        if path.is_dir():
            return not rest
    return False


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in links(page) if leads_nowhere(page, link)
    ]
    assert broken == []


def test_the_start_page_leads_to_every_page() -> None:
    index = DOCS / "index.md"
    lists = (index, DOCS / "decisions" / "README.md")
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in lists for link in links(page)}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} - linked - {index} == set()


def test_files_that_documents_name_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}" for path in committed(".md") for name in missing_files(path.read_text())
    ]
    assert missing == []


def test_modules_that_documents_and_docstrings_name_exist() -> None:
    missing = {str(path.relative_to(ROOT)): missing_modules(path.read_text()) for path in committed(".md", ".py")}
    assert {path: names for path, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("`activities/nowhere.py`, `docs/index.md`, `api/rest/`", ["activities/nowhere.py"]),
        ("`outlast.activities.nowhere`, `outlast.activities.runs`", ["outlast.activities.nowhere"]),
        (
            "`outlast.activities.contracts.Nobody`, `outlast.activities.contracts.Caller`",
            ["outlast.activities.contracts.Nobody"],
        ),
    ],
)
def test_a_name_without_a_file_is_noticed(text: str, gone: list[str]) -> None:
    assert missing_files(text) + missing_modules(text) == gone


def test_the_picture_of_the_layers_is_drawn_from_its_source() -> None:
    drawn = runpy.run_path(str(DOCS / "pictures" / "draw.py"))["draw"]()
    assert (DOCS / "architecture.svg").read_text() == drawn, "run `make docs`"
