"""Declarations of tools for programs."""

import ast
from typing import Any

from outlast.workflows.programs.stubs import ProgramTool, python_name, stubs


def declared(properties: dict[str, Any], answer: dict[str, Any] | None = None, **more: Any) -> str:
    schema = {"type": "object", "properties": properties, **more}
    return stubs([ProgramTool("shop__find-order", schema, answer)])


def test_names_are_identifiers() -> None:
    names = ["git__git_log", "get-dataset-items", "a.b/c", "class", "3d", "ä-b"]
    assert [python_name(name) for name in names] == [
        "git__git_log", "get_dataset_items", "a_b_c", "class_", "3d_", "__b"
    ]  # fmt: skip


def test_parameters_have_types_and_only_required_ones_have_no_default() -> None:
    text = declared(
        {
            "id": {"type": "integer"},
            "kind": {"enum": ["new", "old"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "at": {"$ref": "#/$defs/At"},
        },
        required=["id"],
        **{"$defs": {"At": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}},
    )
    assert "async def shop__find_order(*, id: int, kind: Literal['new', 'old'] = ..., tags: list[str] = ..., " in text
    assert "note: str | None = ..., at: shop__find_order_At = ...) -> Any: ..." in text
    assert "shop__find_order_At = TypedDict('shop__find_order_At', {'x': float})" in text


def test_answers_are_the_values_that_programs_get() -> None:
    stored = {"properties": {"compressed": {"const": True}, "locator": {"type": "string"}}}
    order = {
        "type": "object",
        "properties": {"usd": {"type": "number"}, "note": {"type": "string"}},
        "required": ["usd"],
    }
    assert "{'usd': float, 'note': NotRequired[str]}" in declared({}, {"anyOf": [order, stored]})
    assert "-> int: ..." in declared({}, {"properties": {"result": {"type": "integer"}}})


def test_hostile_schemas_stay_small_and_declare_nothing_else() -> None:
    endless = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/E"} for number in range(50)}}
    hostile = {
        "a\nimport os": {"type": "string"},
        "b": {"enum": ['"""\nimport os']},
        "c": {"$ref": "#/$defs/E"},
        "def": {"type": "string"},
    }
    text = declared(hostile, **{"$defs": {"E": endless}})
    assert len(text) < 100_000
    kinds = {type(node) for node in ast.parse(text).body}
    assert kinds == {ast.ImportFrom, ast.Assign, ast.AsyncFunctionDef}
