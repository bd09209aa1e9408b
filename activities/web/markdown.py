"""Markdown pages as articles with sections, and texts in parts. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MARKDOWN_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its text up to the next heading. `fragment` is None before the first heading."""

    fragment: str | None
    title: str
    level: int
    markdown: str


@dataclass(frozen=True, slots=True)
class Article:
    """A page's title and its sections, in order."""

    title: str
    sections: tuple[Section, ...]

    @property
    def markdown(self) -> str:
        """The whole article."""
        return "\n\n".join(section.markdown for section in self.sections if section.markdown)

    def under(self, fragment: str) -> str | None:
        """The section with this fragment and its subsections, or None."""
        for position, section in enumerate(self.sections):
            if section.fragment == fragment:
                rest = self.sections[position + 1 :]
                end = next((n for n, other in enumerate(rest) if other.level <= section.level), len(rest))
                return "\n\n".join(part.markdown for part in (section, *rest[:end]) if part.markdown)
        return None


def article_of_markdown(markdown: str, fragments: Sequence[str | None] = ()) -> Article:
    """The sections of a Markdown page. Headings without a fragment get one in the usual way of sites."""
    parts = list(_by_heading(_BLANK_LINES.sub("\n\n", markdown).strip()))
    # Fragments are matched to headings by position: when the numbers differ, none is used.
    given = iter(fragments if len(fragments) == len(parts) - 1 else ())
    used: dict[str, int] = {}
    sections: list[Section] = []
    for heading, body in parts:
        if heading is None:
            sections.append(Section(None, "", 0, body))
            continue
        hashes, text = heading
        plain = _plain(text)
        fragment = next(given, None) or _slug(plain, used)
        sections.append(Section(fragment, plain, len(hashes), body))
    kept = tuple(section for section in sections if section.markdown)
    return Article(next((section.title for section in kept if section.title), ""), kept)


def one_line(text: str) -> str:
    """`text` with single spaces in place of all white space."""
    return " ".join(text.split())


def chunks_of(text: str, max_bytes: int) -> list[str]:
    """`text` in parts of at most `max_bytes` of UTF-8, split after a tag where possible; at least one part."""
    data = text.encode()
    parts: list[str] = []
    while len(data) > max_bytes:
        cut = data.rfind(b">", max_bytes // 2, max_bytes) + 1 or _character_boundary(data, max_bytes)
        parts.append(data[:cut].decode())
        data = data[cut:]
    return [*parts, data.decode()]


def slice_bytes(text: str, offset: int, max_bytes: int) -> tuple[str, int | None, int]:
    """The part of `text` from byte `offset` on, the offset of the next part (None at the end), and the total size."""
    data = text.encode()
    start = _character_boundary(data, offset)
    end = _character_boundary(data, start + max_bytes)
    return data[start:end].decode(), end if end < len(data) else None, len(data)


def _character_boundary(data: bytes, position: int) -> int:
    """`position`, moved back to the start of a character."""
    position = min(position, len(data))
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _by_heading(markdown: str) -> Iterator[tuple[tuple[str, str] | None, str]]:
    """Each heading (hashes, text) with its lines up to the next one; first None with the lines before any heading."""
    heading: tuple[str, str] | None = None
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _MARKDOWN_HEADING.match(line)
        if found:
            yield heading, "\n".join(lines).strip()
            heading, lines = (found.group(1), found.group(2)), []
        lines.append(line)
    yield heading, "\n".join(lines).strip()


def _plain(text: str) -> str:
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return one_line(re.sub(r"[`*\\]|\u200b", "", without_links))


def _slug(title: str, used: dict[str, int]) -> str:
    slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") or "section"
    used[slug] = used.get(slug, -1) + 1
    return f"{slug}-{used[slug]}" if used[slug] else slug
