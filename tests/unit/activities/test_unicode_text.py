"""Text from outside becomes valid Unicode, whatever cuts it and however it is written."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.unicode_text import JsonTextCleaner, TextPieces, valid_json, valid_json_text, valid_text

TEXTS = st.text(alphabet=st.characters() | st.sampled_from('\ud83d\ude00\0\\"u0d8éa\ufffd'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("caf\ud83d", "caf\ufffd"),
        ("\ude00caf", "\ufffdcaf"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d\ud83d\ude00\ude00", "\ufffd😀\ufffd"),
        ("a\0b", "a\ufffdb"),
        ("", ""),
    ],
)
def test_a_text_has_a_replacement_for_each_half_and_nul(given_text: str, expected: str) -> None:
    assert valid_text(given_text) == expected


def test_a_valid_value_is_the_same_object() -> None:
    value: Any = {"name": ["😀", 1.5, None, {"deep": "é"}], "big": 2**80}
    assert valid_text(value["name"][0]) is value["name"][0]
    assert valid_json(value) == value
    text = b'{"a": "\\ud83d\\ude00 \\\\ud83d \\\\u0000 \xc3\xa9"}'
    assert valid_json_text(text) is text


def test_keys_and_nested_values_are_replaced_and_no_key_is_lost() -> None:
    keys = ["a\ud800", "a\ud801", "a\ufffd"]
    value: Any = dict(zip(keys, [{"b": ["\udfff", {"c\0": 1}]}, 2, 3], strict=True))
    cleaned: Any = valid_json(value)
    assert sorted(cleaned.values(), key=str) == [2, 3, {"b": ["\ufffd", {"c\ufffd": 1}]}]
    assert cleaned["a\ufffd"] == 3
    orjson.dumps(cleaned)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b'{"text": "caf\\ud83d"}', {"text": "caf\ufffd"}),
        (b'{"text": "\\uDE00caf"}', {"text": "\ufffdcaf"}),
        (b'{"\\ud83d": [{"a": "\\u0000"}]}', {"\ufffd": [{"a": "\ufffd"}]}),
        (b'{"text": "\\\\\\ud83d\\\\ud83d"}', {"text": "\\\ufffd\\ud83d"}),
        (b'{"text": "caf\xed\xa0\xbd"}', {"text": "caf\ufffd"}),
        (b'{"text": "\xed\xa0\xbd\xed\xb8\x80"}', {"text": "😀"}),
        (b'{"text": "caf\xff\xc3"}', {"text": "caf\ufffd\ufffd"}),
        (b'{"a\0": "b\0"}', {"a\ufffd": "b\ufffd"}),
    ],
)
def test_json_is_replaced_as_escapes_and_as_bytes(written: bytes, expected: object) -> None:
    assert orjson.loads(valid_json_text(written)) == expected


@given(value=VALUES, is_escaped=st.booleans(), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_chunks_and_ways_to_write_it_make_no_difference(value: Any, is_escaped: bool, cuts: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=is_escaped).encode(errors="surrogatepass")
    cleaner, pieces, start = JsonTextCleaner(), list[bytes](), 0
    for cut in sorted(cuts):
        pieces.append(cleaner.feed(text[start:cut]))
        start = max(start, cut)
    cleaned = b"".join([*pieces, cleaner.feed(text[start:]), cleaner.end()])
    assert cleaned == valid_json_text(text)
    assert bool(cleaner.replaced) == (cleaned != text)
    # Of keys that become equal, text keeps the last, as of keys that were equal before.
    assert json.loads(cleaned) == _cleaned(json.loads(text))


def _cleaned(value: Any) -> Any:
    """`value` with valid texts, the simple way."""
    match value:
        case str():
            return valid_text(value)
        case list():
            return [_cleaned(part) for part in value]
        case dict():
            return {valid_text(name): _cleaned(part) for name, part in value.items()}
        case _:
            return value


@given(pieces=st.lists(TEXTS, max_size=5))
def test_pieces_of_a_text_are_joined(pieces: list[str]) -> None:
    stream = TextPieces()
    received = [*(stream.feed(piece) for piece in pieces), stream.end()]
    assert "".join(received) == valid_text("".join(pieces))
    for piece in received:
        piece.encode()


def test_a_long_run_of_backslashes_costs_time_in_proportion() -> None:
    cleaner = JsonTextCleaner()
    sizes = [len(cleaner.feed(b"\\" * 16_384)) for _ in range(200)]
    assert sum(sizes) + len(cleaner.end()) == 200 * 16_384
