"""Content types, and pictures, sounds and files in base64 with the type that their bytes have. Pure. A provider refuses
a whole conversation for one picture whose bytes are not of the named type. So the media of tools and users are checked
wherever they leave Outlast: to models, to programs that run models, to MCP clients.
"""

import base64
import binascii
import codecs
import re
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

import filetype  # pyright: ignore[reportMissingTypeStubs]

from outlast.activities.contracts import JsonObject
from outlast.activities.unicode_text import valid_text

PICTURES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Types of pictures that models see, of every provider."""
PDF: Final = "application/pdf"

_HEAD_BYTES = 8_192
_PDF_HEAD_BYTES = 1_024
"""Readers of PDF look for its mark within this many bytes (ISO 32000-1, Annex H)."""
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<parameters>(?:;[^;,]*)*),", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_URL_SAFE = str.maketrans("-_", "+/")
_UNKNOWN = "application/octet-stream"
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/apng": "image/png",
    "application/x-pdf": PDF,
}
_SOUNDS = {"wave": "wav", "vnd.wave": "wav", "mp3": "mpeg", "mpga": "mpeg", "m4a": "mp4", "aac": "mp4", "opus": "ogg"}
"""Names of sounds that differ although their bytes are of one kind, without `x-`."""
_SEEN = "JPEG, PNG, GIF and WebP"


class Media(NamedTuple):
    """Media whose type is that of their bytes. `data` is base64 of the standard alphabet, with padding."""

    media_type: str
    data: str


class UnusableMedia(ValueError):
    """The data is not valid media. The message gives the reason, as the rest of a sentence."""


def checked_media(media_type: str | None, data: str) -> Media:
    """The media with their real type. Raises `UnusableMedia`. `data` may be a data URL (RFC 2397), or base64 with line
    breaks, of the alphabet for URLs, or without padding.
    """
    label = _plain(media_type or "")
    if found := _DATA_URL.match(data.lstrip()[:_HEAD_BYTES]):
        label = _plain(found["type"]) or label
        data = data.lstrip()[found.end() :]
        if "base64" not in found["parameters"].lower():
            data = base64.b64encode(unquote_to_bytes(data)).decode()
    if not data.strip():
        raise UnusableMedia("it is empty")
    canonical, head = _base64(data)
    return Media(_type_of(label, head), canonical)


def repaired_block(block: JsonObject) -> JsonObject:
    """A content block of MCP that no client fails on: with the real type of its media, or a text that replaces it.
    Clients hand pictures to models as they are, so a picture of a type that models do not see is described, too. A
    block without fault stays as it is.
    """
    match block:
        case {"type": "image" | "audio" as kind, "data": str(data), **rest}:
            label = rest.get("mimeType")
            try:
                media = checked_media(label if isinstance(label, str) else None, data)
                if kind == "image" and media.media_type not in PICTURES:
                    raise UnusableMedia(f"models see {_SEEN}, and this is {media.media_type}")
                if kind == "audio" and isinstance(label, str) and not media.media_type.startswith("audio/"):
                    media = Media(label, media.data)
            except UnusableMedia as flaw:
                return {"type": "text", "text": described(str(kind), str(label), data, str(flaw))}
            changed = {"data": media.data, "mimeType": media.media_type}
        case {"type": "resource", "resource": {"blob": str(blob), **resource}} if blob:
            label = resource.get("mimeType")
            try:
                media = checked_media(label if isinstance(label, str) else None, blob)
            except UnusableMedia as flaw:
                name = str(resource.get("uri", "resource"))
                return {"type": "text", "text": described(name, str(label), blob, str(flaw))}
            # Only the label of what clients show is replaced: the type of other files cannot be read from their bytes.
            is_shown = isinstance(label, str) and (label.startswith("image/") or _plain(label) == PDF)
            known = {"mimeType": media.media_type} if is_shown else {}
            changed = {"resource": {**resource, "blob": media.data, **known}}
        case _:
            return block
    repaired: JsonObject = {**block, **changed}
    return block if repaired == block else repaired


def described(name: str, media_type: str, data: str, reason: str = "") -> str:
    """Return the text that replaces media where they cannot be shown."""
    size = len(data) * 3 // 4
    text = f"[{name}, {media_type}, {size} bytes: it cannot be shown here{f': {reason}' if reason else ''}]"
    return valid_text(text)


def _plain(media_type: str) -> str:
    """Return a media type without its parameters, in lower case, under its usual name."""
    plain = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)


def _base64(data: str) -> tuple[str, bytes]:
    """`data` in its usual form, and the first bytes."""
    for candidate in (data, _SPACE.sub("", data).translate(_URL_SAFE)):
        whole = candidate if candidate is data else candidate.rstrip("=") + "=" * (-len(candidate.rstrip("=")) % 4)
        try:
            decoded = base64.b64decode(whole, validate=True)
        except (binascii.Error, ValueError):
            continue
        return whole, decoded[:_HEAD_BYTES]
    raise UnusableMedia("its data is not base64")


def _type_of(label: str, head: bytes) -> str:
    found = _detected(head)
    kind = label.partition("/")[0]
    if found is None:
        if kind == "image" or label == PDF:
            raise UnusableMedia(f"its bytes are not of the type {label}, nor of another known type")
        return label or _UNKNOWN
    if found.startswith("image/") or found == PDF or kind == "image" or label in ("", _UNKNOWN, PDF):
        return found
    if kind == "audio" and found.startswith("audio/") and _sound(label) != _sound(found):
        return found
    return label


def _detected(head: bytes) -> str | None:
    kind: object = filetype.guess_mime(head)  # pyright: ignore[reportUnknownMemberType]  # the library has no types
    if isinstance(kind, str):
        return _ALIASES.get(kind, kind)
    if b"%PDF-" in head[:_PDF_HEAD_BYTES]:
        return PDF
    return "image/svg+xml" if b"<svg" in head else None


def _sound(media_type: str) -> str:
    name = media_type.partition("/")[2].removeprefix("x-")
    return _SOUNDS.get(name, name)


_TEXT_TYPES = frozenset({"application/javascript", "application/x-ndjson", "application/yaml", "image/svg+xml"})

_WITHOUT_BYTE_ORDER_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def kind_of(content_type: str) -> Literal["json", "text", "binary"]:
    """Return the kind of a body with this content type."""
    mime = content_type.partition(";")[0].strip().lower()
    if mime == "application/json" or mime.endswith("+json"):
        return "json"
    is_text = mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(("/xml", "+xml"))
    return "text" if is_text else "binary"


def named_charset(content_type: str) -> str | None:
    """Return the charset that a content type names, as it is written."""
    parameters = (parameter.partition("=") for parameter in content_type.split(";")[1:])
    return next((value.strip(" \"'") for name, _, value in parameters if name.strip().lower() == "charset"), None)


def charset_of(content_type: str) -> str:
    """Return the charset that a content type names; UTF-8 when it names none, or one that does not give text."""
    named = named_charset(content_type) or "utf-8"
    try:
        b"text".decode(named, "replace")  # unlike a lookup, this refuses codecs that do not give text, such as hex
        return codecs.lookup(named).name
    except (LookupError, UnicodeError):
        return "utf-8"


def decoded(data: bytes, content_type: str, *, is_last: bool) -> tuple[str, int]:
    """`data` as valid text, and how many of its bytes that is. Unless `is_last`, the bytes of a character that is cut
    off at the end are not decoded.
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
