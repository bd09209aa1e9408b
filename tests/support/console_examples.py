"""The console examples of the documentation: the commands of ```console blocks, and what they say is printed.

What differs from run to run matches anything of its kind: ids, times, numbers with a decimal point, lines of progress.
An id keeps its meaning on its page: where a later command names it, it is the id that was printed. `...` and `…` match
anything, and white space does not count, so that a page may break lines. After a line `HTTP/1.1 ...` only the headers
that the page shows are compared. Where a page shows nothing, the command has to end well.

Two comments before a block, which readers do not see, say what else there is to it: `<!-- not run: REASON -->`, and
`<!-- run first: COMMAND -->`, which stands before each command of the block.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n\s*|<!-- run first: (?P<first>.+?) -->\n\s*)?"
    r"```console\n(?P<body>.*?)```",
    re.DOTALL,
)
_PROGRESS = re.compile(r"(?:^ +\d+:\d\d  .*\n)+", re.MULTILINE)
_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|\+00:00)?"
_PLATFORM_ID = r"\b(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w{17}\b"
_ID = rf"out_[a-z2-7]+(?:_[a-z2-7]+)*|[a-z][a-z0-9-]*-[0-9a-f]{{20,32}}(?![0-9a-f])|{_PLATFORM_ID}"
_NUMBER = r"\d[\d,]*\.\d+|\b\d:\d\d\b|\d+(?= GB| series| s\b)|(?<=process )\d+"
_VERSION = r"(?<=version )[0-9a-f]{12}|\b3\.\d\d\.\d+\b"
"""Of a worker, or of Python."""
_VOLATILE = re.compile(rf"(?P<time>{_TIME})|(?P<id>{_ID})|(?P<any>\.\.\.|…|{_VERSION})|(?P<number>{_NUMBER})")
_ANY = {"time": r"[\d:.TZ+-]+", "number": r"[\d,:]+(?:\.\d+)?(?:e-\d+)?", "any": r".*?"}


@dataclass(frozen=True)
class Example:
    """One command, and what its page says it prints. `line` is where it stands, `first` what goes before."""

    command: str
    printed: str
    line: int
    first: str = ""


@dataclass
class Page:
    """The examples of one page, in order, and the ids that stand for those of the page."""

    examples: list[Example]
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def command(self, example: Example) -> str:
        """The command to run: with the ids that were printed on the way here."""
        command = example.command
        for shown, actual in self.ids.items():
            command = command.replace(shown, actual)
        return f"{example.first}\n{command}"

    def difference(self, example: Example, output: str, exit_code: int) -> str | None:
        """What was printed instead of what the page says; None when it fits."""
        shown, actual = example.printed.strip(), output
        if not shown:
            return f"it ends with {exit_code}:\n{output}" if exit_code else None
        if shown.startswith("HTTP/1.1"):
            head, _, shown = shown.partition("\n\n")
            actual_head, _, actual = output.replace("\r", "").partition("\n\n")
            missing = [line for line in head.splitlines() if not self._has_line(line, actual_head)]
            if missing:
                return f"{missing} is not in\n{actual_head}"
            actual = actual if shown.strip() else ""
        return None if self._fits(shown, actual) else f"the page:\n{shown}\nprinted:\n{output}"

    def _has_line(self, line: str, head: str) -> bool:
        return any(self._fits(line.lower(), actual.lower()) for actual in head.splitlines())

    def _fits(self, shown: str, actual: str) -> bool:
        pattern, names = _pattern(shown)
        match = re.fullmatch(pattern, _squeezed(actual), re.DOTALL)
        if match is None:
            return False
        for group, name in names.items():
            self.ids.setdefault(name, match[group])
        return True


def console_page(path: Path) -> tuple[Page, dict[int, str]]:
    """The examples of a page, and of its blocks that are not run the reasons, by line."""
    text = path.read_text()
    examples: list[Example] = []
    skipped: dict[int, str] = {}
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("body")) + 1
        if block["reason"]:
            skipped[line] = block["reason"]
        else:
            examples += _examples(block["body"], line, block["first"] or "")
    return Page(examples), skipped


def page_of_reason(path: Path, reason: str) -> Page:
    """The examples of the blocks that are not run with the others for a reason that contains `reason`."""
    blocks = [block for block in _BLOCK.finditer(path.read_text()) if reason in (block["reason"] or "")]
    return Page([example for block in blocks for example in _examples(block["body"], 0, "")])


def _examples(body: str, line: int, first: str) -> Iterator[Example]:
    parts = re.split(r"^\s*\$ ", body, flags=re.MULTILINE)
    at = line + parts[0].count("\n")
    for part in parts[1:]:
        command, printed = _split(part)
        yield Example(command, printed.strip("\n"), at, first)
        at += part.count("\n")


def _split(part: str) -> tuple[str, str]:
    """The command, with the lines that continue it, and what it prints."""
    lines = part.splitlines()
    end = 1
    while lines[end - 1].endswith("\\") or "\n".join(lines[:end]).count("'") % 2:
        end += 1
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def _pattern(shown: str) -> tuple[str, dict[str, str]]:
    """A regular expression for squeezed output, and the ids behind its groups."""
    parts: list[str] = []
    names: dict[str, str] = {}
    at = 0
    shown = _PROGRESS.sub("...\n", f"{shown}\n")
    for match in _VOLATILE.finditer(shown):
        parts.append(re.escape(_squeezed(shown[at : match.start()])))
        kind = str(match.lastgroup)
        if kind == "id":
            names[f"id{len(names)}"] = match[0]
            parts.append(rf"(?P<id{len(names) - 1}>[\w-]+?)")
        else:
            parts.append(_ANY[kind])
        at = match.end()
    parts.append(re.escape(_squeezed(shown[at:])))
    return "".join(parts), names


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)
