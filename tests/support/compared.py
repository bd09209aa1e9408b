"""`python -m tests.support.compared`: the programs of docs/compared.md and their sizes, from docs/examples/compared.

`make docs` runs it, and a test compares.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import DOCS

PAGE = DOCS / "compared.md"
PROGRAMS = DOCS / "examples" / "compared"
FRAMEWORKS = {"outlast": "Outlast", "fastmcp": "FastMCP", "dbos": "DBOS"}
"""Folders of the programs, and names of the frameworks."""
_BEGIN = "<!-- from docs/examples/compared: make docs -->"
_END = "<!-- end of what is from docs/examples/compared -->"
_BETWEEN = re.compile(f"{re.escape(_BEGIN)}\n.*?{re.escape(_END)}", re.DOTALL)
_HEADING = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)


def tasks() -> tuple[str, ...]:
    """Names of the tasks in the order of the page: those of Outlast's programs."""
    return tuple(path.stem for path in sorted((PROGRAMS / "outlast").glob("*.py")))


def program(framework: str, task: str) -> Path | None:
    """The program of a framework for a task; None if the framework has no way to do it."""
    path = PROGRAMS / framework / f"{task}.py"
    return path if path.exists() else None


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank nor comments, imports included."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def rewritten(page: str) -> str:
    """The page with the table and the programs. Raises `ValueError` unless it has a place for each."""
    parts = iter((_table(page), *map(_blocks, tasks())))
    if len(_BETWEEN.findall(page)) != 1 + len(tasks()):
        raise ValueError(f"{1 + len(tasks())} parts must stand between {_BEGIN} and {_END}")
    return _BETWEEN.sub(lambda _: f"{_BEGIN}\n\n{next(parts)}\n\n{_END}", page)


def _table(page: str) -> str:
    titles = [f"[{title}](#{number}-{_anchor(title)})" for number, title in _HEADING.findall(page)]
    rows = ((title, *_sizes(task)) for title, task in zip(titles, tasks(), strict=True))
    heading = f"| lines of code | {' | '.join(FRAMEWORKS.values())} |"
    return "\n".join([heading, "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _sizes(task: str) -> Iterator[str]:
    for framework in FRAMEWORKS:
        path = program(framework, task)
        yield str(lines_of_code(path)) if path else "not possible"


def _blocks(task: str) -> str:
    found = ((name, program(framework, task)) for framework, name in FRAMEWORKS.items())
    return "\n\n".join(f"{name}:\n\n```python\n{path.read_text()}```" for name, path in found if path)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
