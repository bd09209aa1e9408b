"""The picture of the house shows the rooms that there are, and is drawn from its source as it stands."""

import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "docs" / "pictures"
HOUSE = tomllib.loads((PICTURES / "house.toml").read_text())
BOXES = [*HOUSE["floor"], *HOUSE["beside"]]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def packages_in(floor: Path) -> set[str]:
    """Folders directly below a floor that hold code; links to other floors are not its own."""
    folders = (path for path in floor.iterdir() if path.is_dir() and not path.is_symlink())
    return {folder.name for folder in folders if any(folder.rglob("*.py")) and folder.name != "__pycache__"}


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box["folder"])
def test_every_room_of_the_picture_exists(box: dict[str, list[list[str]]]) -> None:
    floor = ROOT / str(box["folder"])
    assert [room[0] for room in box["rooms"] if not (floor / room[0]).is_dir()] == []


@pytest.mark.parametrize("box", HOUSE["floor"], ids=lambda box: box["folder"])
def test_every_room_of_a_floor_is_in_the_picture(box: dict[str, list[list[str]]]) -> None:
    assert packages_in(ROOT / str(box["folder"])) - {room[0] for room in box["rooms"]} == set()


def test_the_page_names_every_module_beside_the_rooms_of_the_activities() -> None:
    """They are what several rooms need; whatever has one purpose gets a room."""
    loose = {path.name for path in (ROOT / "activities").glob("*.py")} - {"__init__.py"}
    assert {name for name in loose if f"`{name}`" not in PAGE and f"`activities/{name}`" not in PAGE} == set()


def test_the_picture_is_drawn_from_its_source() -> None:
    drawn = runpy.run_path(str(PICTURES / "draw.py"))["draw"]()
    assert (ROOT / "docs" / "architecture.svg").read_text() == drawn, "run `make docs`"


def test_the_steps_of_the_picture_are_steps_of_the_page() -> None:
    steps = {step for box in BOXES for room in box["rooms"] for step in " ".join(room[2:]).replace(",", "").split()}
    assert steps
    assert {step for step in steps if f"\n{step}. **" not in PAGE} == set()
