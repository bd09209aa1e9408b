"""What the console ships: vendored libraries as they were published, and pages without anything from elsewhere."""

import hashlib
import re
import zlib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CONSOLE = ROOT / "api" / "console"
VENDORED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
    "htmx-LICENSE.txt": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
}
"""Digests of the files of htmx.org 4.0.1; `make vendor` prints them."""
TEMPLATES = sorted((CONSOLE / "templates").glob("*.html"))
MAX_WHEEL_BYTES = 200_000


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_as_it_was_published(name: str) -> None:
    assert hashlib.sha256((CONSOLE / "static" / name).read_bytes()).hexdigest() == VENDORED[name]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_page_has_no_script_style_or_address_of_its_own(template: Path) -> None:
    text = template.read_text()
    assert re.findall(r"\sstyle=|\son\w+=|<style|hx-on|javascript:|\|safe\b", text) == []
    assert re.findall(r"<script(?![^>]*\ssrc=\"\{\{ root \}\}static/)", text) == []
    assert re.findall(r"(?:src|href|action)=\"(?:https?:)?/", text) == []


def test_styles_and_scripts_of_the_console_name_no_other_server() -> None:
    for name in ("console.css", "console.js"):
        assert re.findall(r"https?://|@import|url\(", (CONSOLE / "static" / name).read_text()) == []


def test_the_console_adds_little_to_the_wheel() -> None:
    files = [path for path in CONSOLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(zlib.compress(path.read_bytes(), 6)) for path in files) < MAX_WHEEL_BYTES
