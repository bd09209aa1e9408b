"""Content types: the kind of bytes that one names, and how they are decoded."""

import codecs
from typing import Literal

from outlast.activities.unicode_text import valid_text

_TEXT_TYPES = frozenset({"application/javascript", "application/x-ndjson", "application/yaml", "image/svg+xml"})

_WITHOUT_BYTE_ORDER_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def kind_of(content_type: str) -> Literal["json", "text", "binary"]:
    """The kind of a body with this content type."""
    mime = content_type.partition(";")[0].strip().lower()
    if mime == "application/json" or mime.endswith("+json"):
        return "json"
    is_text = mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(("/xml", "+xml"))
    return "text" if is_text else "binary"


def named_charset(content_type: str) -> str | None:
    """The charset that a content type names, as it is written."""
    parameters = (parameter.partition("=") for parameter in content_type.split(";")[1:])
    return next((value.strip(" \"'") for name, _, value in parameters if name.strip().lower() == "charset"), None)


def charset_of(content_type: str) -> str:
    """The charset that a content type names; UTF-8 when it names none, or one that does not give text."""
    named = named_charset(content_type) or "utf-8"
    try:
        b"text".decode(named, "replace")  # unlike a lookup, this refuses codecs that do not give text, such as hex
        return codecs.lookup(named).name
    except (LookupError, UnicodeError):
        return "utf-8"


def decoded(data: bytes, content_type: str, *, is_last: bool) -> tuple[str, int]:
    """`data` as valid text, and how many of its bytes that is.

    Unless `is_last`, the bytes of a character that is cut off at the end are not decoded.
    """
    charset = charset_of(content_type)
    try:
        text, taken = _decoded(data, charset, is_last)
    except UnicodeError:  # there is no byte order mark, as in every part of a text but the first
        text, taken = _decoded(data, _WITHOUT_BYTE_ORDER_MARK.get(charset, "utf-8"), is_last)
    # A reader must get past every part, whatever its charset holds back.
    return (text, taken) if taken or not data else _decoded(data, charset, True)


def _decoded(data: bytes, charset: str, is_last: bool) -> tuple[str, int]:
    decoder = codecs.getincrementaldecoder(charset)(errors="replace")
    text = decoder.decode(data, is_last)
    return valid_text(text), len(data) - len(decoder.getstate()[0])
