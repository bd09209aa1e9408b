"""JSON of any origin: what is read, what is given as text, and what is refused."""

import pytest

from outlast.activities.json_values import read, value_of

DEEP = 2_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"id": 12345678901234567890123}', {"id": 12345678901234567890123}),
        (b"[[1]]", [[1]]),
        (b'"caf\xc3\xa9"', "caf\xe9"),
    ],
)
def test_a_value_is_read_exactly(text: bytes, value: object) -> None:
    assert read(text) == (value, False)


@pytest.mark.parametrize("inner", [b"", b"12345678901234567890123"], ids=["orjson", "json"])
def test_what_no_parser_reads_for_its_levels_is_given_as_text(inner: bytes) -> None:
    text = b"[" * DEEP + inner + b"]" * DEEP
    assert read(text) == (text.decode(), True)


@pytest.mark.parametrize(
    "text", [b"<html>A proxy</html>", b'{"id": 1', b'{"id": 12345678901234567890123', b"", b'{"id": NaN}']
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"line 1|Expecting"):
        read(text)
    assert value_of(text) == text.decode()
