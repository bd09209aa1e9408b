"""Formats of durations, times, sizes and texts."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from outlast.cli.options import parse_duration
from outlast.cli.show.output import ago, clock, one_line, printable, size
from outlast.wording import duration

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
        (356_400, "4 d 3 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(7.9, "0:07"), (750, "12:30"), (3723, "1:02:03"), (-3, "0:00")])
def test_clock(seconds: float, words: str) -> None:
    assert clock(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "just now"), (30, "30 s ago"), (119, "1 min ago"), (90_000, "1 d ago")]
)
def test_ago(seconds: float, words: str) -> None:
    assert ago(NOON, NOON + timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("size_bytes", "words"), [(512, "512 B"), (3400, "3.4 kB"), (12e9, "12 GB"), (3e13, "30.0 TB")]
)
def test_sizes(size_bytes: float, words: str) -> None:
    assert size(size_bytes) == words


def test_text_from_outside_keeps_its_lines_and_loses_its_control_characters() -> None:
    assert printable("a\r\nb\tc\x1b[31m\x07") == "a\nb\tc\ufffd[31m\ufffd"
    assert one_line(" a\n\n b ") == "a b"
    assert one_line(None) == ""


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2H", 7200), ("1d", 86_400)])
def test_durations_on_the_command_line(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "1w", "1 h 5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)
