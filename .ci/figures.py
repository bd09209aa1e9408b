"""`make figures`: the size of the product code beside the sizes to reach.

Counts the committed Python modules of the product's top-level folders, without documentation, tests and `.ci`.
"""

import ast
import subprocess
import tomllib
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
_FOLDERS = ("activities", "api", "deploy", "outlast", "worker", "workflows")
_SHORT_LINES = 40


def main() -> None:
    """Print one row per figure: its name, its value today and its target."""
    modules = product_modules()
    texts = {path: path.read_text() for path in modules}
    sizes = {path: len(text.splitlines()) for path, text in texts.items()}
    total = sum(sizes.values())
    short = [path for path, size in sizes.items() if size < _SHORT_LINES and path.name != "__init__.py"]
    imports = sum(import_lines(text) for text in texts.values())
    rows = [
        ("modules", f"{len(modules):,}", "at most 750"),
        ("lines", f"{total:,}", "at most 92,000"),
        ("median lines of a module", f"{median(sizes.values()):g}", "110 to 200"),
        (f"modules under {_SHORT_LINES} lines without __init__", f"{len(short)}", "at most 40"),
        ("imports, share of lines", f"{imports / total:.1%}", "at most 7.5%"),
        ("direct dependencies of `outlast`", f"{len(direct_dependencies())}", "at most 12"),
    ]
    for row in [("", "today", "target"), *rows]:
        print("{:<40}{:>10}   {}".format(*row))


def product_modules() -> list[Path]:
    """Return the Python files of the product that git tracks or would track, in order."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *_FOLDERS]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return sorted(path for name in listing.split("\0") if name.endswith(".py") and (path := ROOT / name).is_file())


def import_lines(source: str) -> int:
    """Count the lines that import statements take, wherever they are in a module."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def direct_dependencies() -> list[str]:
    """Return the requirements of `pip install outlast` without extras."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


if __name__ == "__main__":
    main()
