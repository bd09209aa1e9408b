"""The real type of media is read from their bytes, whatever their label and the form of their data."""

import pytest

from outlast.activities.media import Media, UnusableMedia, checked_media, repaired_block
from tests.support import pictures as p

REAL = [
    ("image/png", p.PNG, "image/png"),
    ("image/png", p.JPEG, "image/jpeg"),
    ("image/jpg", p.JPEG, "image/jpeg"),
    ("IMAGE/PNG; charset=binary", p.PNG, "image/png"),
    ("image/jpeg", p.WEBP, "image/webp"),
    ("image/webp", p.GIF, "image/gif"),
    ("image/png", p.HEIC, "image/heic"),
    ("image/png", p.BMP, "image/bmp"),
    ("image/png", p.SVG, "image/svg+xml"),
    ("image/png", p.PDF, "application/pdf"),
    ("application/pdf", p.PDF, "application/pdf"),
    ("application/pdf", p.LATE_PDF, "application/pdf"),
    ("application/pdf", p.PNG, "image/png"),
    ("application/octet-stream", p.PNG, "image/png"),
    ("", p.PNG, "image/png"),
    (None, p.PDF, "application/pdf"),
    ("audio/wav", p.WAV, "audio/wav"),
    ("audio/x-wav", p.WAV, "audio/x-wav"),
    ("audio/wav", p.MP3, "audio/mpeg"),
    ("audio/mp3", p.MP3, "audio/mp3"),
    ("audio/unheard-of", p.EOF_ONLY, "audio/unheard-of"),
    ("application/octet-stream", p.EOF_ONLY, "application/octet-stream"),
    ("text/csv", p.HTML, "text/csv"),
]


@pytest.mark.parametrize(("label", "data", "real"), REAL)
def test_the_bytes_tell_the_type(label: str | None, data: str, real: str) -> None:
    assert checked_media(label, data) == Media(real, data)


FORMS = [
    f"data:image/png;base64,{p.PNG}",
    f"data:image/jpeg;charset=utf-8;base64,{p.PNG}",
    f"DATA:;BASE64,{p.PNG}",
    f"\n  {p.PNG[:20]}\r\n{p.PNG[20:]}\n",
    p.PNG.replace("+", "-").replace("/", "_"),
    p.PNG.rstrip("="),
]


@pytest.mark.parametrize("data", FORMS)
def test_data_in_other_forms_become_plain_base64(data: str) -> None:
    assert checked_media("image/png", data) == Media("image/png", p.PNG)


def test_a_data_url_without_base64_is_decoded() -> None:
    assert checked_media("image/png", "data:image/svg+xml,%3Csvg/%3E") == Media("image/svg+xml", p.encoded(b"<svg/>"))


UNUSABLE = [
    ("image/png", "", "empty"),
    ("image/png", " \n", "empty"),
    ("image/png", "data:image/png;base64,", "empty"),
    ("image/png", "https://example.com/a.png", "not base64"),
    ("image/png", "[object Object]", "not base64"),
    ("image/png", "caf\ud83d", "not base64"),
    ("image/png", p.HTML, "image/png"),
    ("image/png", p.EOF_ONLY, "image/png"),
    ("application/pdf", p.HTML, "application/pdf"),
    ("audio/wav", "A", "not base64"),
]


@pytest.mark.parametrize(("label", "data", "reason"), UNUSABLE)
def test_what_nobody_can_show_is_named(label: str, data: str, reason: str) -> None:
    with pytest.raises(UnusableMedia, match=reason):
        checked_media(label, data)


def test_a_block_without_fault_stays_the_same_object() -> None:
    blocks = [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": p.PNG, "mimeType": "image/png", "annotations": {"audience": ["user"]}},
        {"type": "audio", "data": p.WAV, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": p.EOF_ONLY}},
        {"type": "resource", "resource": {"uri": "a://b", "text": "hi"}},
        {"type": "new_thing", "data": 1},
    ]
    for block in blocks:
        assert repaired_block(block) is block  # type: ignore[arg-type]  # JSON


def test_a_block_is_repaired_or_told() -> None:
    repaired = repaired_block({"type": "image", "data": p.JPEG, "mimeType": "image/png", "_meta": {"a": 1}})
    assert repaired == {"type": "image", "data": p.JPEG, "mimeType": "image/jpeg", "_meta": {"a": 1}}
    assert repaired_block({"type": "image", "data": p.JPEG})["mimeType"] == "image/jpeg"
    resource = {"type": "resource", "resource": {"uri": "a://b", "mimeType": "image/png", "blob": p.JPEG}}
    assert repaired_block(resource)["resource"]["mimeType"] == "image/jpeg"  # type: ignore[index,call-overload]
    sound = {"type": "audio", "data": p.PNG, "mimeType": "audio/mpeg"}
    assert repaired_block(sound) is sound  # type: ignore[arg-type]  # JSON: no client takes it for a picture
    for broken in (
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "image", "data": p.HEIC, "mimeType": "image/heic"},
        {"type": "image", "data": p.SVG, "mimeType": "image/svg+xml"},
        {"type": "audio", "data": "no base64!", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://b", "mimeType": "image/png", "blob": "no base64!"}},
    ):
        told = repaired_block(broken)  # type: ignore[arg-type]  # JSON
        assert told["type"] == "text"
        assert "cannot be shown here" in str(told["text"])
