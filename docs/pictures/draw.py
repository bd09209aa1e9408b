"""`python docs/pictures/draw.py`: draws docs/architecture.svg from architecture.toml."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "architecture.toml"
TARGET = FOLDER.parent / "architecture.svg"

WIDTH, LAYERS_WIDTH, BESIDE_WIDTH, MARGIN = 1180, 880, 236, 16
PACKAGE_HEIGHT, GAP, PER_ROW = 58, 10, 4
STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: #1f2933 }
.name { font: 600 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.folder { font-size: 18px; font-weight: 700 }
.small { font-size: 11.5px; fill: #52606d }
.layer { fill: #f5f7fa; stroke: #cbd2d9 } .package { fill: #ffffff; stroke: #cbd2d9 }
.outside { fill: #e6f6ff; stroke: #7cc4fa } .temporal { fill: #efe8ff; stroke: #a78bfa }
.step { fill: #e3f9e5; stroke: #91d5a0 }
.arrow { stroke: #52606d; stroke-width: 1.5; fill: none; marker-end: url(#head) } .head { fill: #52606d }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .small { fill: #9aa5b1 } .layer { fill: #1f2933; stroke: #3e4c59 }
  .package { fill: #28333f; stroke: #3e4c59 } .outside { fill: #0b3a5e; stroke: #2680c2 }
  .temporal { fill: #32235f; stroke: #7c5ce0 } .step { fill: #0b4d2c; stroke: #3f9142 }
  .arrow { stroke: #9aa5b1 } .head { fill: #9aa5b1 }
}
"""


@dataclass
class Sheet:
    """The drawing, from top to bottom; `y` is where the next part begins."""

    parts: list[str] = field(default_factory=list[str])
    y: int = MARGIN

    def box(self, kind: str, x: int, y: int, width: int, height: int) -> None:
        """Draw a rectangle with round corners."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')

    def text(self, kind: str, x: float, y: int, words: str, *, middle: bool = False) -> None:
        """Draw a line of text; `y` is its base line."""
        anchor = ' text-anchor="middle"' if middle else ""
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y}"{anchor}>{escape(words)}</text>')

    def arrow(self, x: int, y: int, length: int) -> None:
        """Draw an arrow that points down."""
        self.parts.append(f'<path class="arrow" d="M{x} {y}v{length - 7}"/>')


@dataclass(frozen=True)
class Package:
    """A folder of a layer."""

    name: str
    does: str
    steps: str = ""


def draw(source: Path = SOURCE) -> str:
    """Return the picture as SVG, with styles for light and dark backgrounds."""
    picture = tomllib.loads(source.read_text())
    sheet = Sheet()
    outside = picture["outside"]
    _draw_outside(sheet, outside["above"])
    top = sheet.y
    for layer in picture["layer"]:
        _draw_layer(sheet, layer)
        if layer["folder"] == "api":
            _draw_temporal(sheet, outside["middle"])
    _draw_outside(sheet, outside["below"], last=True)
    for beside in picture["beside"]:
        top = _draw_beside(sheet, beside, top)
    return _svg(sheet)


def _draw_layer(sheet: Sheet, layer: dict[str, Any]) -> None:
    packages = [Package(*package) for package in layer["packages"]]
    rows = -(-len(packages) // PER_ROW)
    height = 46 + rows * (PACKAGE_HEIGHT + GAP) + (4 if rows else 0)
    sheet.box("layer", MARGIN, sheet.y, LAYERS_WIDTH, height)
    name = f"{layer['folder']}/"
    sheet.text("name folder", MARGIN + 14, sheet.y + 29, name)
    sheet.text("", MARGIN + 26 + 11 * len(name), sheet.y + 28, layer["does"])
    for (x, y), package in zip(_places(sheet.y + 46), packages, strict=False):
        _draw_package(sheet, x, y, _package_width(), package)
    sheet.y += height
    sheet.arrow(MARGIN + LAYERS_WIDTH // 2, sheet.y, 26)
    sheet.y += 26


def _places(top: int) -> Iterator[tuple[int, int]]:
    index = 0
    while True:
        row, column = divmod(index, PER_ROW)
        yield MARGIN + 12 + column * (_package_width() + GAP), top + row * (PACKAGE_HEIGHT + GAP)
        index += 1


def _package_width() -> int:
    return (LAYERS_WIDTH - 24 - (PER_ROW - 1) * GAP) // PER_ROW


def _draw_package(sheet: Sheet, x: int, y: int, width: int, package: Package) -> None:
    sheet.box("package", x, y, width, PACKAGE_HEIGHT)
    sheet.text("name", x + 10, y + 19, package.name)
    if package.steps:
        sheet.box("step", x + width - 44, y + 6, 36, 18)
        sheet.text("small", x + width - 26, y + 19, package.steps, middle=True)
    for number, line in enumerate(wrap(package.does, width // 7)[:2]):
        sheet.text("small", x + 10, y + 35 + 14 * number, line)


def _draw_outside(sheet: Sheet, names: Sequence[str], *, last: bool = False) -> None:
    width = (LAYERS_WIDTH - (len(names) - 1) * GAP) // len(names)
    for index, name in enumerate(names):
        x = MARGIN + index * (width + GAP)
        sheet.box("outside", x, sheet.y, width, 34)
        sheet.text("", x + width / 2, sheet.y + 22, name, middle=True)
    sheet.y += 34
    if not last:
        sheet.arrow(MARGIN + LAYERS_WIDTH // 2, sheet.y, 26)
        sheet.y += 26


def _draw_temporal(sheet: Sheet, words: str) -> None:
    sheet.box("temporal", MARGIN, sheet.y, LAYERS_WIDTH, 34)
    sheet.text("", MARGIN + LAYERS_WIDTH / 2, sheet.y + 22, words, middle=True)
    sheet.y += 34
    sheet.arrow(MARGIN + LAYERS_WIDTH // 2, sheet.y, 26)
    sheet.y += 26


def _draw_beside(sheet: Sheet, beside: dict[str, Any], top: int) -> int:
    """Draw one box of the right column, and return where the next one begins."""
    x = MARGIN + LAYERS_WIDTH + 32
    packages = [Package(*package) for package in beside["packages"]]
    lines = wrap(beside["does"], 29)
    height = 48 + 17 * len(lines) + len(packages) * (PACKAGE_HEIGHT + GAP)
    sheet.box("layer", x, top, BESIDE_WIDTH, height)
    sheet.text("name folder", x + 14, top + 29, f"{beside['folder']}/")
    for number, line in enumerate(lines):
        sheet.text("", x + 14, top + 52 + 17 * number, line)
    y = top + 44 + 17 * len(lines)
    for package in packages:
        _draw_package(sheet, x + 12, y, BESIDE_WIDTH - 24, package)
        y += PACKAGE_HEIGHT + GAP
    return top + height + 18


def _svg(sheet: Sheet) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {sheet.y + MARGIN}" role="img" '
        f'aria-label="Layers and packages of Outlast"><style>{STYLE}</style>'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return "\n".join([head, *sheet.parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw())
