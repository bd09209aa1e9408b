"""How the console writes money, times and text of others."""

from datetime import UTC, datetime, timedelta

import pytest

from outlast.api.console import formats
from outlast.api.console.fields import document_of, fields_of
from outlast.api.console.framework import Form
from outlast.api.console.overview import words_without_numbers
from outlast.api.errors import BadRequest

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "$0.00"),
        (0.0432, "$0.0432"),
        (0.00012345, "$0.0001234"),
        (0.000026979, "$0.000027"),
        (0.1, "$0.10"),
        (5, "$5.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_is_never_nothing_for_something(value: float | None, shown: str) -> None:
    assert formats.usd(value) == shown


@pytest.mark.parametrize(
    ("passed", "shown"),
    [(24, "24 s ago"), (100, "2 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago"), (-7_300, "in 2 h")],
)
def test_times_are_relative_in_lists(passed: int, shown: str) -> None:
    assert formats.ago(NOW - timedelta(seconds=passed), NOW) == shown


def test_text_of_others_hides_nothing() -> None:
    assert formats.text("a\u202eb\nc") == "a\\u202eb\\nc"
    assert formats.code("a\u202eb\nc\td\x1b[0m") == "a\\u202eb\nc\td\\x1b[0m"
    assert len(formats.code("x" * 1_000_000)) < 21_000


def test_messages_about_the_same_thing_are_equal_without_ids_and_numbers() -> None:
    shown = words_without_numbers("Run YVXX5M0R7yqtphp0P is FAILED after 1.5 s. shop 40 answers 403")
    assert shown == "Run … is FAILED after # s. shop # answers 403"


SCHEMA = {
    "properties": {
        "url": {"type": "string", "title": "URL"},
        "pages": {"type": "integer", "default": 2},
        "depth": {"enum": ["low", "high"]},
        "deep": {"type": "boolean"},
        "proxy": {"type": "object"},
    },
    "required": ["url"],
}


def test_a_form_means_a_document() -> None:
    kinds = {one.name: one.kind for one in fields_of(SCHEMA)}
    assert kinds == {"url": "text", "pages": "integer", "depth": "choice", "deep": "boolean", "proxy": "json"}
    filled = {"url": "x", "pages": "3", "depth": "", "deep": "false", "proxy": '{"use": true}'}
    form = Form({f"field-{name}": [value] for name, value in filled.items()})
    assert document_of(SCHEMA, form) == {"url": "x", "pages": 3, "deep": False, "proxy": {"use": True}}
    with pytest.raises(BadRequest, match="pages"):
        document_of(SCHEMA, Form({"field-url": ["x"], "field-pages": ["many"]}))
