"""The help of every command is wrapped by the terminal, not by the source."""

import pytest
import typer

from outlast.cli.main import command_line, flowing


def helps(app: typer.Typer) -> list[str]:
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance is not None]
    of_groups = [text for group in groups for text in helps(group)]
    return [command.help or "" for command in app.registered_commands] + of_groups


def test_paragraphs_are_lines_and_examples_keep_theirs() -> None:
    found = helps(command_line())
    assert len(found) > 40
    assert all(found)
    paragraphs = [paragraph for text in found for paragraph in text.split("\n\n")]
    assert [paragraph for paragraph in paragraphs if "\n" in paragraph and "\n " not in paragraph] == []
    assert any(paragraph.startswith("Examples:\n  outlast ") for paragraph in paragraphs)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("One line.", "One line."),
        ("First\n    line.\n\n    And\n    more.", "First line.\n\nAnd more."),
        ("Do.\n\n    Examples:\n      a\n      b", "Do.\n\nExamples:\n  a\n  b"),
    ],
)
def test_a_docstring_flows(source: str, shown: str) -> None:
    assert flowing(source) == shown
