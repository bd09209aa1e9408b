"""Title and headings of an HTML page, for its summary."""

from html.parser import HTMLParser

_HEADINGS = ("h1", "h2", "h3")
_HEADING_CHARS = 80
_TITLE_CHARS = 200


class Outline(HTMLParser):
    """Feed it a page: `title` and `headings` are what it says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.headings: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (HTMLParser's)
        """Enter a title or heading."""
        if tag == "title" or tag in _HEADINGS:
            self._inside = tag
            if tag != "title":
                self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave it."""
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        """Collect its text, in one line."""
        words = " ".join(data.split())
        if not words:
            return
        if self._inside == "title":
            self.title = f"{self.title} {words}".strip()[:_TITLE_CHARS]
        elif self._inside:
            self.headings[-1] = f"{self.headings[-1]} {words}".strip()[:_HEADING_CHARS]


def outline_of(page: str) -> Outline:
    """The outline of a page, or of the beginning of one."""
    outline = Outline()
    outline.feed(page)
    outline.headings = [heading for heading in outline.headings if heading]
    return outline
