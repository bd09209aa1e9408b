"""Progress of a task, read from its status messages."""

import io
import re
from unittest.mock import patch

import pytest

from outlast.cli.show.output import Output
from outlast.cli.show.progress import TaskProgress, done_of_total


@pytest.mark.parametrize(
    ("message", "share"),
    [
        ("Crawled 12/30 pages (0 failed), 5 queued", (12, 30)),
        ("Slept 3 of 10 s", (3, 10)),
        ("Slept 0.25 of 10 s: message", (0.25, 10)),
        ("Wrote 12,000 of 1,000,000 rows", (12_000, 1_000_000)),
        ("0/5", (0, 5)),
        ("retry 7/3, page 1 of 4", (1, 4)),
    ],
)
def test_done_of_total_is_found_in_a_status_message(message: str, share: tuple[float, float]) -> None:
    assert done_of_total(message) == share


@pytest.mark.parametrize(
    "message",
    [
        None,
        "",
        "Crawling",
        "and/or",
        "7 of 3",
        "0 of 0",
        "2026/11/21",
        "https://a.example/1/2/",
        "HTTP/1.1",
        "3 offers",
    ],
)
def test_what_is_no_share_of_anything_gives_none(message: str | None) -> None:
    assert done_of_total(message) is None


def shown(*changes: tuple[str | None, str | None, str | None]) -> list[str]:
    errors = io.StringIO()
    with patch("sys.stderr", errors):
        output = Output(as_json=False)
        with TaskProgress(output) as progress:
            for state, message, at in changes:
                progress.show(state, message, at=at)
    return [re.sub(r"^\s*\d+:\d\d\s+", "", line) for line in errors.getvalue().splitlines()]


def test_without_a_terminal_every_change_is_a_line() -> None:
    assert shown(("READY", None, None), ("RUNNING", "1/3", None), ("RUNNING", "1/3", None), (None, "2/3", None)) == [
        "READY",
        "RUNNING  1/3",
        "RUNNING  2/3",
    ]


def test_events_of_the_past_do_not_turn_the_board_back() -> None:
    assert shown(("RUNNING", "2/3", "2026-01-01T00:00:09Z"), ("READY", None, "2026-01-01T00:00:01Z")) == [
        "RUNNING  2/3"
    ]


def test_a_status_message_cannot_move_the_cursor() -> None:
    (line,) = shown(("RUNNING", "\x1b[2Jgone\nsecond line", None))
    assert line == "RUNNING  \N{REPLACEMENT CHARACTER}[2Jgone second line"
