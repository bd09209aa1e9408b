"""What the documentation points at exists: files, headings, tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def headings(page: Path) -> set[str]:
    """The ids that GitHub and the embedded documentation site give to headings."""
    found = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in headings(target)):
            broken.append(link)
    assert broken == []


def test_the_start_page_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in PAGES if page.is_relative_to(index.parent)} - linked - {index} == set()


def test_the_tests_that_prove_a_promise_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "README.md").read_text())
    assert named
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or (test and f"def {test}(" not in (ROOT / path).read_text())
    ]
    assert missing == []
