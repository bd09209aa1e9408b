"""Text from outside, as valid Unicode: the one definition of how half characters, broken UTF-8 and NUL are replaced.

Crawlers cut texts in the middle of a surrogate pair, and servers write NUL or bytes that are not UTF-8. Such a text can
neither be sent on nor stored, so it is replaced where it enters, by U+FFFD, the character that Unicode has for this
purpose. Code behind the entry can rely on valid text. Pure.

| what comes in | function |
|---|---|
| a Python string | `valid_text` |
| a parsed JSON value, with its keys | `valid_json` |
| a field of a pydantic model, a text or a JSON object | `ValidText`, `ValidObject` |
| bytes of JSON, JSON lines, or server-sent events with JSON | `valid_json_text`; in chunks `JsonTextCleaner` |
| a Python string in pieces, whose pieces may end in the middle of a character | `TextPieces` |
| a description that a stranger has written and a model reads | `without_hidden` |
"""

import re
from collections.abc import Callable
from typing import Annotated, Final, TypeVar, cast

import orjson
from pydantic import AfterValidator, JsonValue

REPLACEMENT: Final = "\ufffd"
NOTE: Final = f"Characters that are not valid Unicode (halves, broken UTF-8, NUL) were replaced by {REPLACEMENT}."
"""Tells the reader of an answer that it differs from its source."""

_REPLACEMENT_BYTES = REPLACEMENT.encode()
_REPLACEMENT_ESCAPE = rb"\ufffd"
_PAIR_OR_INVALID = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\0")

_HEX = rb"[0-9a-fA-F]"
_HIGH, _LOW = rb"u[dD][89abAB]" + _HEX * 2, rb"u[dD][c-fC-F]" + _HEX * 2
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
# The backslashes before are counted in pairs: after an odd number, `\ud83d` is text and no escape.
_ESCAPES = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\" + _HIGH + rb"\\" + _LOW + rb")|\\u(?:[dD][89a-fA-F]" + _HEX * 2 + rb"|0000))"
)
# UTF-8 has no surrogates, but some programs write each half of a pair as three bytes (CESU-8).
_SURROGATE_BYTES = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]|\xed[\xa0-\xbf][\x80-\xbf]")

_ESCAPE_BEGINNING = re.compile(rb"\\(?:" + _HIGH + rb"(?:\\(?:u" + _HEX + rb"{0,3})?)?|u" + _HEX + rb"{0,3})?")
_CHARACTER_BEGINNING = re.compile(
    rb"(?:\xed[\xa0-\xaf][\x80-\xbf](?:\xed[\xb0-\xbf]?)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_LONGEST_BEGINNING = 11
"""Bytes of an escaped pair without its last one."""

Value = TypeVar("Value", bound=JsonValue)


def valid_text(text: str) -> str:
    """`text` with its surrogate pairs joined and U+FFFD for each half and each NUL; `text` itself if it is valid."""
    if "\0" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _PAIR_OR_INVALID.sub(_joined_or_replaced, text)


def valid_json(value: Value) -> Value:
    """`value` with every text as `valid_text` gives it, keys included; `value` itself if all are valid. Keys that
    become equal are kept apart by further U+FFFD.
    """
    try:
        if rb"\u0000" not in orjson.dumps(value):
            return value
    except TypeError:
        pass  # An invalid text, a number that fits in no 64 bits, or too many levels.
    return cast(Value, _valid(value))


def valid_json_text(data: bytes) -> bytes:
    """JSON text in UTF-8 with valid strings; `data` itself if it is valid. What is no JSON stays no JSON. An escaped
    half is replaced by an escape, and a pair of escapes is left as it is.
    """
    cleaner = JsonTextCleaner()
    cleaned = cleaner.feed(data) + cleaner.end()
    return cleaned if cleaner.replaced else data


ValidText = Annotated[str, AfterValidator(valid_text)]
"""A text field of a model that is made of texts of others, such as the message of a tool's own error."""


ValidObject = Annotated[dict[str, JsonValue], AfterValidator(valid_json)]
"""The same for a JSON object, such as the form of a tool's question."""


class JsonTextCleaner:
    """`valid_json_text` for a body that comes in chunks: memory holds one chunk."""

    def __init__(self) -> None:
        self.replaced = 0
        """The number of characters replaced so far."""
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that can be passed on after `chunk`; up to 11 bytes are held back until the next chunk."""
        data = self._rest + chunk
        whole = _end_of_whole(data)
        self._rest = data[whole:]
        return self._cleaned(data[:whole] if self._rest else data)

    def end(self) -> bytes:
        """Return the rest at the end of the body."""
        rest, self._rest = self._rest, b""
        return self._cleaned(rest)

    def _cleaned(self, data: bytes) -> bytes:
        if b"\0" in data:
            self.replaced += data.count(b"\0")
            data = data.replace(b"\0", _REPLACEMENT_BYTES)
        if not data.isascii():
            data = self._in_utf8(data)
        return _ESCAPES.sub(self._escape, data) if _SUSPECT_ESCAPE.search(data) else data

    def _in_utf8(self, data: bytes) -> bytes:
        try:
            data.decode()
        except UnicodeDecodeError:
            text = _SURROGATE_BYTES.sub(self._surrogate, data).decode(errors="replace")
            # A text that had U+FFFD before counts as changed, too: it was not valid.
            self.replaced += 1
            return text.encode()
        return data

    def _surrogate(self, found: re.Match[bytes]) -> bytes:
        if len(found[0]) == len(_REPLACEMENT_BYTES):
            return _REPLACEMENT_BYTES
        return valid_text(found[0].decode(errors="surrogatepass")).encode()

    def _escape(self, found: re.Match[bytes]) -> bytes:
        if found[2] is not None:
            return found[0]
        self.replaced += 1
        return found[1] + _REPLACEMENT_ESCAPE


class TextPieces:
    """`valid_text` for a text that comes in pieces: a character that is cut between two of them is joined."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be passed on; the first half of a character is held back until the next piece."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return valid_text(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """Return the rest at the end of the text: U+FFFD for a half that has no second one."""
        half, self._half = self._half, ""
        return valid_text(half)


def _joined_or_replaced(found: re.Match[str]) -> str:
    text = found[0]
    return text.encode("utf-16", "surrogatepass").decode("utf-16") if len(text) == 2 else REPLACEMENT


def _valid(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return valid_text(value)
        case list():
            return [_valid(part) for part in value]
        case dict():
            valid: dict[str, JsonValue] = {}
            for name, part in value.items():
                key = valid_text(name)
                while key in valid or (key != name and key in value):
                    key += REPLACEMENT
                valid[key] = _valid(part)
            return valid
        case _:
            return value


def _end_of_whole(data: bytes) -> int:
    """Return the start of the escape or character that is cut off at the end of `data`; its length if none is."""
    end = len(data)
    start = max(0, end - _LONGEST_BEGINNING)
    position = data.find(b"\\", start)
    while position >= 0:
        if _ESCAPE_BEGINNING.fullmatch(data, position) and _is_escaping(data, position):
            return position
        position = data.find(b"\\", position + 1)
    cut = _CHARACTER_BEGINNING.search(data, start)
    return cut.start() if cut else end


def _is_escaping(data: bytes, position: int) -> bool:
    """Return True if the backslash at `position` begins an escape, and is not itself escaped by the one before."""
    run = position
    while run > 0 and data[run - 1] == ord("\\"):
        run -= 1
    return (position - run) % 2 == 0


_FORMATS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that show nothing, or reorder others: zero width, marks of direction, fillers, tags."""
_SELECTORS = "\ufe00-\ufe0f"
_INVISIBLE = f"{_FORMATS}{_SELECTORS}\ud800-\udfff"
_VISIBLE = f"[^\x00-\xa0{_INVISIBLE}]"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_MAY_BE_HIDDEN = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
# Emoji, and scripts that join letters, need selectors and joiners between characters that are seen.
_HIDDEN = re.compile(
    f"({_VISIBLE}[\ufe0e\ufe0f]?(?:[\u200c\u200d]{_VISIBLE}[\ufe0e\ufe0f]?)*|[0-9#*]\ufe0f\u20e3)"
    f"|[{_CONTROLS}{_INVISIBLE}]+"
)


def without_hidden(text: str, instead: Callable[[str], str] = lambda _run: REPLACEMENT) -> str:
    """Return `text` with each run of characters that nobody sees replaced: zero width, marks of direction, tags, and
    control characters but for line breaks and tabs. For models it becomes one U+FFFD: they would read what the
    characters spell in any other form.
    """
    if _MAY_BE_HIDDEN.search(text) is None:
        return text
    return _HIDDEN.sub(lambda found: found[1] or instead(found[0]), text)


def hidden_in(text: str) -> tuple[str, ...]:
    """Return the characters that `without_hidden` replaces, each once, such as `U+200B`."""
    if _MAY_BE_HIDDEN.search(text) is None:
        return ()
    runs = (found[0] for found in _HIDDEN.finditer(text) if not found[1])
    return tuple(dict.fromkeys(f"U+{ord(character):04X}" for run in runs for character in run))


# Control characters (C0, C1), line and paragraph separators, characters that are not seen, halves of characters.
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_FORMATS}]")


def printable(text: str) -> str:
    r"""`text` in one line, with what is no visible character written as an escape (`\n`, `\x1b`, `\u2028`)."""
    return _UNSAFE.sub(lambda found: _escape(found[0]), without_hidden(text, _escape))


def _escape(text: str) -> str:
    return text.encode("unicode_escape", "surrogatepass").decode()
