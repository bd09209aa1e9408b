"""Numbers on the command line: every option that takes one refuses what is none, and far too many, by its name."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from outlast.cli.main import command_line
from tests.integration.cli.conftest import Outlast

NO_NUMBERS = ("1e400", "-1e400", "NaN", "nan", "inf", "-Infinity", "1e900000", "five", "")
NO_MONEY = (*NO_NUMBERS, "1e30", "1e-3000", "-0", "0", "-1", "1000000000.01", "0.0000000000001", "9" * 5_000)


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The options that take a number, each with its command."""
    for parameter in command.params:
        if parameter.type_descriptor.annotation in (int, float) and parameter.opts[0].startswith("-"):
            yield path, parameter
    for name, child in getattr(command, "commands", {}).items():
        yield from options(child, (*path, name))


FOUND = list(options(get_command(command_line())))
NAMES = [" ".join((*path, option.opts[0])) for path, option in FOUND]


@pytest.mark.parametrize(("path", "option"), FOUND, ids=NAMES)
def test_what_is_no_number_is_refused_by_the_name_of_its_option(
    outlast: Outlast, path: tuple[str, ...], option: Any
) -> None:
    name = option.opts[0]
    for value in NO_MONEY if option.metavar == "USD" else NO_NUMBERS:
        ended = outlast(*path, f"{name}={value}")
        assert ended.code == 2, (value[:50], ended.said)
        assert name in ended.said, value[:50]


def test_there_are_options_that_take_money() -> None:
    assert sum(option.metavar == "USD" for _, option in FOUND) > 10
