"""A tool's arguments, as they are typed."""

import io
from pathlib import Path

import pytest

from outlast.cli.options import BadInput, ExitCode, read_arguments


def test_json_is_taken_as_it_is() -> None:
    assert read_arguments('{"a": [1, null, "ü"]}', []) == {"a": [1, None, "ü"]}


def test_nothing_given_is_no_arguments() -> None:
    assert read_arguments(None, []) == {}


def test_a_file_and_standard_input_can_hold_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"a": 1}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 2}'))
    assert read_arguments(f"@{file}", []) == {"a": 1}
    assert read_arguments("-", []) == {"a": 2}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("a=5", 5),
        ("a=true", True),
        ("a=hello", "hello"),
        ('a=["x"]', ["x"]),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ("a=NaN", "NaN"),
    ],
)
def test_a_pair_is_json_where_it_can_be_and_text_else(pair: str, value: object) -> None:
    assert read_arguments(None, [pair]) == {"a": value}


def test_pairs_go_over_the_json_and_dots_reach_into_objects() -> None:
    pairs = ["actor=outlast/sleeper", "input.seconds=5"]
    assert read_arguments('{"input": {"steps": 2}, "actor": "x"}', pairs) == {
        "actor": "outlast/sleeper",
        "input": {"steps": 2, "seconds": 5},
    }


@pytest.mark.parametrize(
    ("source", "pairs", "complaint"),
    [
        ('{"a": }', [], "line 1, column 7"),
        ("[1]", [], "not a list"),
        ("null", [], "not null"),
        ('{"a": NaN}', [], "NaN is not a JSON number"),
        ("@/does/not/exist", [], "No such file"),
        ("[" * 100_000, [], "nested too deeply"),
        (None, ["a"], "name=value"),
        (None, ["=1"], "name=value"),
        (None, ["a..b=1"], "name=value"),
        ('{"a": 1}', ["a.b=1"], "'a' is a number"),
    ],
)
def test_a_mistake_is_named_and_is_bad_input(source: str | None, pairs: list[str], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint) as caught:
        read_arguments(source, pairs)
    assert caught.value.exit_code is ExitCode.USAGE
