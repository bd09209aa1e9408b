"""The documentation shows a picture of each dashboard, with all its panels."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from outlast.deploy.grafana.board import Board
from outlast.deploy.grafana.boards import BOARDS
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "pictures"
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
