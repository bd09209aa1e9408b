"""Uploaded files become UTF-8 chunk by chunk, and none whose encoding would have to be guessed."""

import pytest

from outlast.api.batches.sources import NotInCharset, Utf8Text


def as_utf8(data: bytes, charset: str | None = None, *, size: int = 1) -> bytes:
    text = Utf8Text(charset)
    return b"".join(text.feed(data[at : at + size]) for at in range(0, len(data), size)) + text.end()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_pieces_may_end_anywhere(size: int) -> None:
    text = "a;Ж\n1;😀 and 東京\n" * 20
    assert as_utf8(text.encode("utf-16"), size=size) == text.encode()
    assert as_utf8(text.encode("gb18030"), "gb18030", size=size) == text.encode()
    assert as_utf8(text.encode(), size=size) == text.encode()
    assert as_utf8(b"", size=size) == b""
    assert as_utf8(b"a", size=size) == b"a"
    with pytest.raises(NotInCharset, match="Line 3 is not UTF-8"):
        as_utf8("a\nb\ncafé au lait\nmüde\n".encode("latin1"), size=size)


@pytest.mark.parametrize(
    "data",
    [
        "two ё and one broken ".encode() + b"\xe9\n",
        b"caf\xff",  # of no encoding
        b"cut off \xf0\x9f\n",
        b"half \xed\xa0\xbd and a pair \xed\xa0\xbd\xed\xb8\x80\n",
    ],
)
def test_broken_places_of_utf_8_are_left_to_the_rows(data: bytes) -> None:
    assert as_utf8(data) == data


def test_half_a_character_of_utf_16_is_replaced() -> None:
    assert as_utf8(b"\xff\xfe" + b"a\0\x3d\xd8b\0") == "a\ufffdb".encode()
