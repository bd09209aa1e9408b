"""From rows to items."""

from typing import Any

import pytest

from outlast.api.batches.admission import Mapped, RowMapping, RowRefused, merged, typed, without_secrets


def test_own_arguments_go_over_the_common_ones_field_by_field() -> None:
    common = {"actor": "a", "input": {"limit": 5, "deep": {"x": 1, "y": 2}}}
    own = {"input": {"url": "u", "deep": {"y": 3}}, "list": [1]}
    both = merged(common, own)
    assert both == {"actor": "a", "input": {"limit": 5, "url": "u", "deep": {"x": 1, "y": 3}}, "list": [1]}
    assert common["input"] == {"limit": 5, "deep": {"x": 1, "y": 2}}


def test_a_mapping_places_values_in_objects_and_lists() -> None:
    fields = {"input.startUrls.0.url": "page", "input.startUrls.1.url": "more.1", "input.depth": "a.b"}
    mapping = RowMapping({"input": {"limit": 1}}, fields, "more.0")
    item = mapping.item({"page": "p", "more": [7, "q"], "a.b": 2, "unused": None})
    assert item.key == "7"
    assert item.arguments == {"input": {"limit": 1, "startUrls": [{"url": "p"}, {"url": "q"}], "depth": 2}}


@pytest.mark.parametrize(
    ("fields", "key", "row"),
    [
        ({}, None, [1]),
        ({}, None, "text"),
        ({"a": "x"}, None, {}),
        ({"a": "x.0"}, None, {"x": {}}),
        ({"a": "x.9"}, None, {"x": [1]}),
        ({"a": "x", "a.b": "x"}, None, {"x": 1}),
        ({"a.0": "x", "a.2": "x"}, None, {"x": 1}),
        ({"a.0": "x", "a.b": "x"}, None, {"x": 1}),
        ({"a.99999999999": "x"}, None, {"x": 1}),
        ({}, "id", {"id": None}),
        ({}, "id", {"id": ""}),
        ({}, "id", {"id": True}),
        ({}, "id", {"id": 1.5}),
        ({}, "id", {"id": "k" * 201}),
        ({}, None, {"key": {}, "arguments": {}}),
    ],
)
def test_a_row_that_gives_no_item_is_refused(fields: dict[str, str], key: str | None, row: Any) -> None:
    with pytest.raises(RowRefused):
        RowMapping({}, fields, key).item(row)


def test_texts_become_what_the_schema_has() -> None:
    schema: dict[str, Any] = {
        "properties": {
            "n": {"type": "integer"},
            "f": {"type": ["number", "null"]},
            "b": {"type": "boolean"},
            "s": {"type": "string"},
            "either": {"type": ["string", "integer"]},
            "list": {"items": {"type": "integer"}},
            "input": {"properties": {"deep": {"type": "integer"}}},
        }
    }
    texts: dict[str, Any] = {"n": "3", "f": None, "b": "TRUE", "s": "007", "either": "5", "list": ["1", "x"], "no": "1"}
    wanted = {"n": 3, "b": True, "s": "007", "either": "5", "list": [1, "x"], "no": "1"}
    assert typed(texts, schema) == wanted
    assert typed({"input": {"deep": "2"}}, schema) == {"input": {"deep": 2}}
    assert typed({"n": "three", "f": "1e5"}, schema) == {"n": "three", "f": 1e5}
    assert typed({"n": "1"}, {}) == {"n": "1"}


def test_a_kept_row_has_no_value_that_its_call_has_encrypted() -> None:
    """Wherever the row repeats it. If the value is not found in the arguments, nothing is kept."""
    row: dict[str, Any] = {"site": "https://a.example", "password": "hunter2", "note": "login: hunter2", "age": 3}
    item = Mapped(None, {"input": {"login": [{"password": "hunter2"}], "url": "https://a.example"}})
    call: dict[str, Any] = {"input": {"login": [{"password": {"$sealed": {"key": "1"}}}], "url": "https://a.example"}}
    kept = {"site": "https://a.example", "password": "[secret]", "note": "[secret]", "age": 3}
    assert without_secrets(row, item, call) == kept
    assert without_secrets(row, item, {"input": {"other": {"$sealed": {"key": "1"}}}}) is None
    assert without_secrets(row, item, item.arguments) is row
