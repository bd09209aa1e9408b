"""The pictures of the dashboards: one for each, shown on the page, with every panel, drawn from a real Prometheus."""

import re
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest

from outlast.deploy.grafana.board import Board
from outlast.deploy.grafana.boards import BOARDS
from tests.pictures.__main__ import FOLDER, draw
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.paths import ROOT
from tests.support.stacks.prometheus import Prometheus

PAGE = (ROOT / "docs" / "dashboards.md").read_text()
LARGEST_BYTES = 150_000


def texts(picture: Path) -> Counter[str]:
    """The texts of a picture, and how often each is there."""
    drawn = ET.fromstring(picture.read_text())
    return Counter(text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text"))


def missing(board: Board, picture: Path) -> Counter[str]:
    """What a picture of a dashboard has to name and does not: its title, its rows, its panels."""
    wanted = Counter([board.title, *(row.title for row in board.rows), *(panel.title for panel in board.panels)])
    return wanted - texts(picture)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_dashboard_has_a_picture_of_all_its_panels(board: Board) -> None:
    picture = FOLDER / f"{board.uid}.svg"
    assert picture.stat().st_size < LARGEST_BYTES
    assert missing(board, picture) == Counter(), "run `make pictures`"
    shown = re.search(rf"!\[(.+)\]\(pictures/{board.uid}\.svg\)", PAGE)
    assert shown, "docs/dashboards.md does not show it"
    assert len(shown[1]) > 20


def test_no_picture_is_of_a_dashboard_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("outlast-*.svg")} == {board.uid for board in BOARDS}


@pytest.mark.thorough
@pytest.mark.needs("prometheus")
async def test_pictures_show_what_prometheus_tells(
    prometheus: Prometheus, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await completed(api, sleeper_call(0))
    await prometheus.reaches('max(count_over_time(outlast_tool_calls_total{tool="call-actor"}[1m]))', 5)
    draw(prometheus, time.time() - 10, time.time(), tmp_path)
    for board in BOARDS:
        assert missing(board, tmp_path / f"{board.uid}.svg") == Counter()
    assert texts(tmp_path / "outlast-tools.svg")["call-actor"] >= 2
