"""A dashboard as one SVG: its panels with what a Prometheus has told about them.

It is laid out as Grafana does it, with the same titles, units, legends and colours of thresholds. Colours follow the
reader's: light or dark.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.typing import RcKeyType

from outlast.deploy.grafana.board import Board, Kind, Panel, Row, Unit

_COLUMNS = 24
_WIDTH_INCHES = 13.0
_COLUMN = 1 / _COLUMNS
_HEAD_INCHES, _ROW_INCHES, _NUMBER_INCHES, _GRAPH_INCHES = 0.5, 0.34, 0.95, 2.6
_MOST_LEGENDS = 6
_LIGHT = {"page": "#f4f5f5", "card": "#ffffff", "edge": "#d8d9da", "text": "#24292e", "small": "#5a6069"}
_DARK = {"page": "#111217", "card": "#181b1f", "edge": "#343741", "text": "#e6e6ea", "small": "#a3a7b0"}
_SERIES = ("#3b8b3b", "#b8860b", "#2b7bba", "#d9622b", "#c4314b", "#8a5fc7", "#138f8f", "#a05a2c", "#cc5a9a", "#6f7d1e")
_GOOD, _WARN, _BAD = "#2e8540", "#b8860b", "#c4314b"
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_LINE = re.compile(r"M ?(-?[\d.]+ -?[\d.]+)((?:L ?-?[\d.]+ -?[\d.]+){3,})")
_LONG = re.compile(r"-?\d+\.\d{2,}")
_SCALES = {
    Unit.NUMBER: ((1e6, " M"), (1e3, " K"), (1, "")),
    Unit.PER_SECOND: ((1, " req/s"),),
    Unit.SECONDS: ((60, " min"), (1, " s"), (1e-3, " ms"), (1e-6, " µs")),
    Unit.BYTES: ((2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B")),
    Unit.BYTES_PER_SECOND: ((1e6, " MB/s"), (1e3, " kB/s"), (1, " B/s")),
    Unit.SHARE: ((0.01, "%"),),
}
"""How large one of each is, and its name; the largest first."""
_STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outlast",
    "font.size": 9,
    "font.family": "sans-serif",
    "text.parse_math": False,
    "text.color": _LIGHT["text"],
    "axes.edgecolor": _LIGHT["edge"],
    "axes.labelcolor": _LIGHT["small"],
    "xtick.color": _LIGHT["small"],
    "ytick.color": _LIGHT["small"],
    "grid.color": _LIGHT["edge"],
    "timezone": "UTC",
}

Place = tuple[float, float, float, float]
"""Left, bottom, width and height, each as a share of the picture."""


@dataclass(frozen=True)
class Series:
    """One line: its legend, and a value or NaN for each moment."""

    legend: str
    values: Sequence[float]


@dataclass(frozen=True)
class Told:
    """What Prometheus told about a board: moments in Unix seconds, and the series of each panel, in order."""

    moments: Sequence[float]
    panels: Sequence[Sequence[Series]]


def as_svg(board: Board, told: Told) -> str:
    """The picture of a dashboard."""
    lines = [(row, _lines(row)) for row in board.rows]
    total = _HEAD_INCHES + sum(_ROW_INCHES + sum(map(_height, drawn)) for _, drawn in lines)
    moments = [datetime.fromtimestamp(moment, UTC) for moment in told.moments]
    of_panels = iter(told.panels)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, total), facecolor=_LIGHT["page"])
        figure.text(0.012, 1 - 0.3 / total, board.title, size=14, weight="bold", va="center")
        top = total - _HEAD_INCHES
        for row, drawn in lines:
            figure.text(0.012, (top - 0.2) / total, row.title, size=11, weight="bold", va="center")
            top -= _ROW_INCHES
            for line in drawn:
                height, column = _height(line), 0
                top -= height
                for panel in line:
                    place = (column * _COLUMN, top / total, panel.width * _COLUMN, height / total)
                    _draw(figure, place, panel, moments, next(of_panels))
                    column += panel.width
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Title": board.title})
    return _slim(written.getvalue())


def _lines(row: Row) -> Sequence[Sequence[Panel]]:
    """The panels of a row as Grafana places them: side by side, and below where there is no room."""
    lines: list[list[Panel]] = []
    for panel in row.panels:
        if not lines or sum(one.width for one in lines[-1]) + panel.width > _COLUMNS:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _height(line: Sequence[Panel]) -> float:
    return _NUMBER_INCHES if line[0].kind is Kind.NUMBER else _GRAPH_INCHES


def _draw(figure: Figure, place: Place, panel: Panel, moments: Sequence[datetime], series: Sequence[Series]) -> None:
    """A card with the panel's title, and in it the number or the graph."""
    left, bottom, width, height = place
    inches = figure.get_figheight()
    gap_x, gap_y = 0.005, 0.06 / inches
    card = FancyBboxPatch(
        (left + gap_x, bottom + gap_y),
        width - 2 * gap_x,
        height - 2 * gap_y,
        boxstyle="round,pad=0,rounding_size=0.003",
        mutation_aspect=_WIDTH_INCHES / inches,
        transform=figure.transFigure,
        zorder=-1,
        facecolor=_LIGHT["card"],
        edgecolor=_LIGHT["edge"],
        linewidth=0.8,
    )
    figure.add_artist(card)
    figure.text(left + 0.012, bottom + height - 0.2 / inches, panel.title, size=9.5, weight="bold", va="center")
    if panel.kind is Kind.NUMBER:
        inside = (left + 0.012, bottom + 0.1 / inches, width - 0.024, height - 0.42 / inches)
        _number(figure, inside, panel, moments, series)
    else:
        inside = (left + 0.054, bottom + 0.72 / inches, width - 0.068, height - 1.1 / inches)
        _graph(figure, inside, panel, moments, series)


def _number(figure: Figure, inside: Place, panel: Panel, moments: Sequence[datetime], series: Sequence[Series]) -> None:
    """The last value, in the colour of its threshold, over the area of all values."""
    axes = figure.add_axes(inside)
    axes.axis("off")
    last = next((value for one in series for value in reversed(one.values) if not _missing(value)), None)
    if last is None:
        _no_data(axes)
        return
    colour = _colour(panel, last)
    axes.fill_between(moments, _known(series[0].values), color=colour, alpha=0.18, linewidth=0)  # pyright: ignore[reportArgumentType]
    axes.set_ylim(0, max(_largest(series[0]), 1e-9) * 1.6)
    axes.set_xlim(moments[0], moments[-1])  # pyright: ignore[reportArgumentType]
    axes.text(
        0.5, 0.5, shown(last, panel.unit), size=19, color=colour, ha="center", va="center", transform=axes.transAxes
    )


def _graph(figure: Figure, inside: Place, panel: Panel, moments: Sequence[datetime], series: Sequence[Series]) -> None:
    """The series over time, with units at the axis and the largest ones named below."""
    axes = figure.add_axes(inside, facecolor="none")
    axes.grid(visible=True, linewidth=0.5)
    axes.tick_params(length=0, labelsize=7.5)
    axes.set_xlim(moments[0], moments[-1])  # pyright: ignore[reportArgumentType]
    axes.xaxis.set_major_locator(AutoDateLocator(minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, panel.unit)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    if not series:
        _no_data(axes)
        return
    if panel.kind is Kind.STACKED and len(series) > _MOST_LEGENDS:
        series = [one for one in series if _largest(one) > 0] or series[:1]
    ordered = series if len(series) <= _MOST_LEGENDS else sorted(series, key=_largest, reverse=True)
    colours = [colour for _, colour in zip(ordered, cycle(_SERIES), strict=False)]
    if panel.kind is Kind.STACKED:
        axes.stackplot(moments, [_known(one.values) for one in ordered], colors=colours, alpha=0.55, linewidth=0)  # pyright: ignore[reportArgumentType]
    else:
        for one, colour in zip(ordered, colours, strict=True):
            axes.plot(moments, one.values, color=colour, linewidth=1.3)  # pyright: ignore[reportArgumentType]
    axes.set_ylim(bottom=0, top=None if any(_largest(one) > 0 for one in ordered) else 1)
    named = [(one.legend, colour) for one, colour in zip(ordered, colours, strict=True) if one.legend]
    if named:
        _legend(axes, named)


def _legend(axes: Axes, named: Sequence[tuple[str, str]]) -> None:
    """The names of the series; where there are many, of the largest ones."""
    shown_names = [(_cut(name), colour) for name, colour in named[:_MOST_LEGENDS]]
    rest = len(named) - _MOST_LEGENDS
    if rest > 0:
        shown_names[-1] = (f"and {rest + 1} more", "none")
    handles = [Line2D([], [], color=colour, linewidth=3, label=name) for name, colour in shown_names]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(-0.17, -0.13),
        ncol=3 if max(len(name) for name, _ in shown_names) < 19 else 2,
        fontsize=7.5,
        frameon=False,
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.0,
        labelspacing=0.25,
        borderpad=0,
    )


def _cut(legend: str, longest: int = 27) -> str:
    return legend if len(legend) <= longest else f"{legend[: longest - 1]}…"


def _no_data(axes: Axes) -> None:
    _middle(axes, "No data", size=9, color=_LIGHT["small"])


def _middle(axes: Axes, text: str, *, size: float, color: str) -> None:
    axes.text(0.5, 0.5, text, size=size, color=color, ha="center", va="center", transform=axes.transAxes)


def _colour(panel: Panel, value: float) -> str:
    """The colour of a value by the panel's thresholds, as `rendering` tells them to Grafana."""
    limits = panel.limits
    never = float("-inf" if limits.fewer_is_bad else "inf")
    warn = never if limits.warn is None else limits.warn
    bad = never if limits.bad is None else limits.bad
    if limits.fewer_is_bad:
        return _BAD if value < bad else _WARN if value < warn else _GOOD
    return _BAD if value >= bad else _WARN if value >= warn else _GOOD


def shown(value: float, unit: Unit) -> str:
    """A value with its unit, as Grafana writes it."""
    if unit is Unit.USD:
        return f"${float(f'{value:.3g}'):.9f}".rstrip("0").rstrip(".")
    scales = _SCALES[unit]
    size, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    number = value / size
    return f"{number:.3g}{name}" if 0 < abs(number) < 1000 else f"{number:.0f}{name}" if number else "0"


def _missing(value: float) -> bool:
    return value != value  # noqa: PLR0124  # NaN is not itself


def _largest(series: Series) -> float:
    return max((value for value in series.values if not _missing(value)), default=0.0)


def _known(values: Sequence[float]) -> list[float]:
    return [0.0 if _missing(value) else value for value in values]


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _relative(line: re.Match[str]) -> str:
    """The same line as steps from point to point, which are shorter to write."""
    points = [[float(number) for number in point.split()] for point in (line[1], *line[2].split("L")[1:])]
    steps = (f"{round(x1 - x0, 1):g} {round(y1 - y0, 1) or 0:g}" for (x0, y0), (x1, y1) in pairwise(points))
    return f"M{line[1]}l{' '.join(steps)}"


def _slim(svg: str) -> str:
    """The same picture with the reader's own fonts, short numbers and dark colours for those who read in the dark."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->\n?\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(font(?:-family)?: [^';\"]*)'[^;\"]*", r"\1sans-serif", svg)
    svg = re.sub(r"\s*\n([LCz]) ?", r"\1", svg)
    svg = re.sub(r'"[^"]*\d\.\d{2}[^"]*"', lambda found: _LONG.sub(_rounded, found[0]), svg)
    svg = re.sub(r"\.0(?=[ L\"\n])", "", svg)
    svg = _LINE.sub(_relative, svg)
    dark = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{_DARK[name]}!important}}'
        for name, light in _LIGHT.items()
        for kind in ("fill", "stroke")
    )
    style = f"text{{font-family:{_FONTS}!important}}@media (prefers-color-scheme:dark){{{dark}}}"
    return svg.replace("<defs>", f"<style>{style}</style>\n<defs>", 1)
