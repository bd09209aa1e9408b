"""Write `outlast/client/blocking` from `outlast/client/asynchronous`: `make client`. With a folder, write it there."""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "outlast" / "client"
HEADER = "# Generated from outlast/client/asynchronous by `make client`: edit it there.\n"
WRITTEN_BY_HAND = ("concurrency.py",)
"""Modules that both packages have, with the same names in them."""
NAMES = {
    "asynchronous": "blocking",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "aread": "read",
}
_CLASS = re.compile(r"\bAsync(?=[A-Z])")
_DOCSTRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')


def generate(target: Path) -> None:
    """Write the blocking package into the folder `target`."""
    with TemporaryDirectory() as scratch:
        source = Path(scratch) / "asynchronous"
        source.mkdir()
        files: list[str] = []
        for module in sorted((CLIENT / "asynchronous").glob("*.py")):
            if module.name not in WRITTEN_BY_HAND:
                files.append(str(source / module.name))
                (source / module.name).write_text(module.read_text())
        classes = {name for file in files for name in re.findall(r"\bAsync[A-Z]\w*", Path(file).read_text())}
        replaced = {name: name.removeprefix("Async") for name in classes} | NAMES
        unasync.unasync_files(files, [unasync.Rule(f"{scratch}/asynchronous/", f"{target}/", replaced)])
    written = [target / Path(file).name for file in files]
    for module in written:
        module.write_text(HEADER + _DOCSTRING.sub(_blocking_words, module.read_text()))
    # Without `async`, blocks can be joined and loops be `yield from`.
    fix = ["check", "--quiet", "--fix", "--unsafe-fixes", "--select", "I,SIM117,UP028"]
    for command in (fix, ["format", "--quiet"]):
        settings = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([sys.executable, "-m", "ruff", *command, *settings, *map(str, written)], check=True)


def _blocking_words(docstring: re.Match[str]) -> str:
    """A docstring of the blocking package: examples without `async` and `await`, names without `Async`."""
    return _CLASS.sub("", re.sub(r"\b(?:async|await) |\ba(?=close\b)", "", docstring[0]))


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if sys.argv[1:] else CLIENT / "blocking")
