"""What a content type says about bytes: which kind of output they are, and how they are decoded."""

import codecs
from typing import Literal

_TEXT_TYPES = frozenset({"application/javascript", "application/x-ndjson", "application/yaml", "image/svg+xml"})


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
        return codecs.lookup(named).name
    except LookupError:
        return "utf-8"


def decoded(data: bytes, content_type: str, *, is_last: bool) -> tuple[str, int]:
    """`data` as text, and how many bytes of it that is: the first bytes of a letter whose rest follows stay unread."""
    decoder = codecs.getincrementaldecoder(charset_of(content_type))(errors="replace")
    text = decoder.decode(data, is_last)
    return text, len(data) - len(decoder.getstate()[0])
