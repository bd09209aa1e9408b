"""Schemas of the outside world: whatever they say, a check ends soon and holds nobody up."""

import asyncio
from typing import Any

import pytest

from outlast.activities.json_schema.checker import ChecksBusy, SchemaChecker, patience
from outlast.activities.json_schema.engine import flaw
from outlast.activities.json_schema.violations import quick_violations, schema_violations

LINKED: dict[str, Any] = {
    "$defs": {f"n{i}": {"allOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2} for i in range(40)}
    | {"n40": {"type": "integer"}},
    "$ref": "#/$defs/n0",
}
"""2^40 ways to one integer."""


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    return [violation.message for violation in schema_violations(schema, value)]


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 50_000 + "!", "does not match"),
        ({"pattern": r"^(?=(a|a)*b)(a*)*\1$"}, "a" * 5_000 + "!", "takes too long"),
        ({"uniqueItems": True}, [{"n": n // 2} for n in range(30_000)], "non-unique"),
        ({"$ref": "https://schemas.example/absent.json"}, {}, "https://schemas.example/absent.json"),
        ({"$ref": "#/$defs/absent"}, {}, "/$defs/absent"),
    ],
    ids=["nested repetition", "back-reference", "unique items", "remote reference", "unknown reference"],
)
def test_what_used_to_take_minutes_or_was_let_through_is_refused(schema: Any, value: Any, said: str) -> None:
    (message,) = messages(schema, value)
    assert said in message
    assert len(message) <= 300


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}]
)
def test_a_reference_to_itself_says_nothing_of_the_value(schema: dict[str, Any]) -> None:
    assert messages(schema, {"any": 1}) == []


def test_a_pattern_of_javascript_counts_beside_the_rest() -> None:
    fields: dict[str, Any] = {
        "a": {"pattern": r"(?<n>x)\k<n>"},
        "b": {"type": "integer"},
        "c": {"pattern": r"^(?!x)\p{L}+$"},
    }
    found = schema_violations({"properties": fields}, {"a": "y", "b": "y", "c": "xy"})
    assert [violation.path for violation in found] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (LINKED, 1),
        ({"$ref": "#"}, 1),
        ({"pattern": r"^(?!b)a"}, "a"),
        ({"allOf": [{"pattern": f"[ab]*a[ab]{{40}}{n}"} for n in range(50)]}, "ab" * 5_000),
        ({"items": {"allOf": [{"type": "integer"}] * 1_000}}, [1] * 50_000),
    ],
    ids=["many ways", "itself", "look-around", "many patterns", "much of both"],
)
def test_what_may_take_long_is_not_done_where_nothing_can_interrupt_it(schema: Any, value: Any) -> None:
    assert quick_violations(schema, value) is None


async def test_a_check_that_takes_too_long_is_killed_while_others_go_on() -> None:
    checker = SchemaChecker(seconds=0.5)
    attack = asyncio.create_task(checker.violations(LINKED, 1, party="hostile"))
    turns = 0
    while not attack.done():
        assert not await checker.violations({"type": "object"}, {}, party="other")
        await asyncio.sleep(0)
        turns += 1
    (violation,) = await attack
    assert "longer than 0.5 seconds" in violation.message
    assert turns > 100


async def test_of_a_check_that_gets_no_processor_the_value_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.activities.json_schema.checker.patience", lambda seconds: 0.5)
    with pytest.raises(ChecksBusy):
        await SchemaChecker(seconds=60).violations(LINKED, 1, party="me")


@pytest.mark.parametrize("seconds", [0.1, 10, 61, 300])
def test_a_check_that_has_the_processors_for_itself_may_use_all_of_its_processor_time(seconds: float) -> None:
    assert patience(seconds) > 2 * seconds


async def test_an_honest_large_value_is_checked_whole_by_the_process() -> None:
    checker = SchemaChecker(seconds=60)
    row: dict[str, Any] = {"type": "object", "required": ["url"], "properties": {"url": {"pattern": "^https://"}}}
    schema: dict[str, Any] = {"properties": {"rows": {"type": "array", "items": row, "uniqueItems": True}}}
    rows: list[Any] = [{"url": f"https://example.com/{n}"} for n in range(20_000)]
    assert await checker.violations(schema, {"rows": rows}, party="me") == ()
    found = await checker.violations(schema, {"rows": [*rows, {"url": "ftp://x"}, {}]}, party="me")
    assert [violation.path for violation in found] == ["/rows/20000/url", "/rows/20001"]


def test_a_schema_that_a_caller_gives_is_judged_without_compiling_thousands_of_patterns() -> None:
    assert flaw('{"type": "object"}') is None
    assert "patterns" in (flaw('{"allOf": [' + ", ".join(['{"pattern": "a"}'] * 200) + "]}") or "")
    assert "absent.json" in (flaw('{"$ref": "https://schemas.example/absent.json"}') or "")


@pytest.mark.parametrize(
    ("pattern", "fits", "breaks"),
    [
        (r"^\p{L}+$", "é", "1"),
        (r"\bfoo\b", "éfooé", "afoo"),
        (r"^[\b]\\b$", "\b\\b", "b"),
        (r"^\P{Script=Greek}$", "a", "α"),
        (r"^(?<y>\d{4})-\k<y>$", "2020-2020", "2020-2021"),
        (r"^(a)(?:b)(?<y>\d)[(]\k<y>0$", "ab1(10", "ab1(20"),
        (r"^[^]+$", "a\nb", ""),
        (r"^\[[^]]$", "[x]", "[x"),
        (r"^([]|a)$", "a", ""),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^x{2}{$", "xx{", "xx"),
        (r"^[\w-.]+$", "a-b.c", "a b"),
        (r"(?<=a+)b", "aab", "b"),
        (r"(?<!a)b", "cb", "ab"),
        (r"^\u{1F600}$", "😀", "x"),
        (r"^\d$", "1", "١"),
        (r"^.$", "😀", "ab"),
    ],
)
@pytest.mark.parametrize("place", ["value", "name"])
def test_patterns_are_javascripts(pattern: str, fits: str, breaks: str, place: str) -> None:
    if place == "value":
        schema: dict[str, Any] = {"pattern": pattern}
        assert (messages(schema, fits), len(messages(schema, breaks))) == ([], 1)
    else:
        schema = {"patternProperties": {pattern: {"type": "integer"}}}
        assert (len(messages(schema, {fits: "a"})), messages(schema, {breaks: "a"})) == (1, [])


def test_a_pattern_that_nobody_can_read_leaves_the_rest_of_the_schema() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"pattern": "(", "maxLength": 1}}, "patternProperties": {"(": False}}
    assert messages(schema, {"a": "b"}) == []
    assert len(messages(schema, {"a": "bc"})) == 1
