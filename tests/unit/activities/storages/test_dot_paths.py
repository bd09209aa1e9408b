"""Dot paths into rows."""

from typing import Any

import pytest

from outlast.activities.storages.datasets import picked

ROW: dict[str, Any] = {
    "url": "u",
    "none": None,
    "crawl": {"statusCode": 200, "time": {"ms": 5}},
    "reviews": [{"rating": 4, "by": {"name": "A"}}, {"rating": 5}, "noise"],
    "a.b": {"c": 1},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("url", "u"),
        ("none", None),
        ("crawl.time.ms", 5),
        ("crawl", ROW["crawl"]),
        ("reviews.rating", [4, 5]),
        ("reviews.by.name", ["A"]),
        ("reviews.1.rating", 5),
        ("reviews.1", {"rating": 5}),
        ("a.b", {"c": 1}),
    ],
)
def test_a_path_leads_to_a_value(path: str, value: Any) -> None:
    assert picked(ROW, [path]) == {path: value}


@pytest.mark.parametrize("path", ["nothing", "url.x", "crawl.nothing", "reviews.7", "reviews.nothing", "none.x"])
def test_a_path_that_leads_nowhere_is_left_out(path: str) -> None:
    assert picked(ROW, [path]) == {}


def test_fields_come_in_the_order_asked_for() -> None:
    assert list(picked(ROW, ["crawl.statusCode", "url"])) == ["crawl.statusCode", "url"]
    assert picked("no object", ["url"]) == {}
