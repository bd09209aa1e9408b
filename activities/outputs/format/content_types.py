"""What a content type says about bytes: which kind of output they are, and how they are decoded."""

import codecs
from typing import Literal

_TEXT_TYPES = frozenset({"application/javascript", "application/x-ndjson", "application/yaml", "image/svg+xml"})

_WITHOUT_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def kind_of(content_type: str) -> Literal["json", "text", "binary"]:
    """The kind of an output that came with this content type."""
    mime = content_type.partition(";")[0].strip().lower()
    if mime == "application/json" or mime.endswith("+json"):
        return "json"
    is_text = mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(("/xml", "+xml"))
    return "text" if is_text else "binary"


def charset_of(content_type: str) -> str:
    """The charset that a content type names, else UTF-8."""
    parameters = (parameter.partition("=") for parameter in content_type.split(";")[1:])
    named = next((value.strip(" \"'") for name, _, value in parameters if name.strip().lower() == "charset"), "utf-8")
    try:
        b"text".decode(named, "replace")  # unlike a look-up, it refuses codecs that give no text
        return codecs.lookup(named).name
    except (LookupError, UnicodeError):
        return "utf-8"


def decoded(data: bytes, content_type: str, *, is_last: bool) -> tuple[str, int]:
    """`data` as text, and how many bytes of it that is: the first bytes of a letter whose rest follows stay unread."""
    charset = charset_of(content_type)
    try:
        return _decoded(data, charset, is_last)
    except UnicodeError:  # a byte order mark is missing, as behind the beginning of a text it is
        return _decoded(data, _WITHOUT_MARK.get(charset, "utf-8"), is_last)


def _decoded(data: bytes, charset: str, is_last: bool) -> tuple[str, int]:
    decoder = codecs.getincrementaldecoder(charset)(errors="replace")
    text = decoder.decode(data, is_last)
    return text, len(data) - len(decoder.getstate()[0])
