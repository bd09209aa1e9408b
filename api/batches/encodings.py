"""Uploaded files as UTF-8, without guesses. Pure.

Spreadsheets write UTF-16 with a byte order mark, or an encoding of the computer's language without a sign of which one.
A file of the second kind is refused unless the request names the encoding: wrong letters would become the inputs of
paid runs.
"""

import codecs
import re
from typing import Final

from outlast.activities.unicode_text import valid_text

_BOMS: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_KNOWN = re.compile(
    r"utf-8|utf-8-sig|utf-16|utf-16-le|utf-16-be|ascii|iso8859-\d+|cp125\d|cp(?:437|850|852|866|932|949|950)|mac-[a-z]+|koi8-[rut]"
    r"|gb18030|gbk|gb2312|big5|euc_jp|euc_kr|shift_jis|tis-620"
)
"""Python's names. Its other codecs are no encodings of files, such as `idna` and `unicode_escape`."""
_OF_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Characters, and halves of surrogate pairs as three bytes."""
_CUT = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{1,2}|[\xfe\xff]")
"""The beginning of a character that was cut off, and bytes that hardly any text has in any encoding."""
_OTHER = re.compile(rb"[\x80-\xff]")
_LONGEST_LINE = 1024 * 1024


class UnknownCharset(ValueError):
    """Nobody knows this encoding. The text is for the caller."""


class NotInCharset(ValueError):
    """The file is not of its encoding. The text is for the caller."""


class Utf8Text:
    """A body as UTF-8, chunk by chunk. Text in UTF-8 stays as it is, broken places included."""

    def __init__(self, charset: str | None) -> None:
        """`charset` is what the request names. Raises `UnknownCharset`."""
        named = _python_name(charset) if charset else None
        self._charset = None if named in ("utf-8", "utf-8-sig") else named
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False
        self._rest = b""
        self._lines = 1
        self._good = self._odd = 0
        self._odd_line = 0

    def feed(self, chunk: bytes) -> bytes:
        """The part of the body in UTF-8. Raises `NotInCharset`."""
        if not self._begun:
            chunk = self._rest + chunk
            if len(chunk) < 2:
                self._rest = chunk
                return b""
            chunk, self._rest = self._begin(chunk), b""
        if self._decoder is not None:
            return self._decoded(chunk, final=False)
        self._look_at(chunk)
        return chunk

    def end(self) -> bytes:
        """What is left at the end of the body. Raises `NotInCharset`."""
        rest = b""
        if not self._begun:
            rest, self._rest = self._begin(self._rest), b""
        if self._decoder is not None:
            return self._decoded(rest, final=True)
        self._look_at(rest, final=True)
        if self._odd > self._good:
            raise NotInCharset(
                f"Line {self._odd_line} is not UTF-8, and the file does not tell its encoding. Save it as UTF-8 (`CSV "
                "UTF-8` in spreadsheets), or name the encoding: `Content-Type: text/csv; charset=windows-1252`."
            )
        return rest

    def _begin(self, chunk: bytes) -> bytes:
        self._begun = True
        mark = next(((bom, name) for bom, name in _BOMS if chunk.startswith(bom)), None)
        if mark is not None and (self._charset is None or self._charset.startswith("utf-16")):
            chunk, self._charset = chunk.removeprefix(mark[0]), mark[1]
        if self._charset is not None:
            is_utf16 = self._charset.startswith("utf-16")
            self._decoder = codecs.getincrementaldecoder(self._charset)("surrogatepass" if is_utf16 else "strict")
        return chunk

    def _decoded(self, chunk: bytes, *, final: bool) -> bytes:
        assert self._decoder is not None
        try:
            return valid_text(self._decoder.decode(chunk, final)).encode()
        except UnicodeDecodeError as error:
            raise NotInCharset(f"The file is not in the encoding {self._charset}: {error.reason}.") from None

    def _look_at(self, chunk: bytes, *, final: bool = False) -> None:
        """Count the characters of UTF-8, and the bytes that are of another encoding."""
        data = self._rest + chunk
        # A character may be cut off at the end of a chunk, but not at that of a line.
        end = len(data) if final or len(data) > _LONGEST_LINE else data.rfind(b"\n") + 1
        data, self._rest = data[:end], data[end:]
        if not data.isascii():
            rest, characters = _OF_UTF8.subn(b"", data)
            others = _CUT.sub(b"", rest)
            self._good += characters
            first = _OTHER.search(others)
            if first is not None:
                self._odd_line = self._odd_line or self._lines + others.count(b"\n", 0, first.start())
                self._odd += len(_OTHER.findall(others))
        self._lines += data.count(b"\n")


def _python_name(charset: str) -> str:
    try:
        name = codecs.lookup(charset.strip().strip("\"'")).name
    except (LookupError, ValueError):
        name = ""
    if not _KNOWN.fullmatch(name):
        raise UnknownCharset(f"The encoding {charset[:60]!r} is not known. Save the file as UTF-8.")
    return name
