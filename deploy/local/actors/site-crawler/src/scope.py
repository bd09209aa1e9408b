"""Which links the crawl follows."""

from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from crawlee import Glob

from .addresses import is_web_address
from .settings import Settings

DEFAULT_PORTS = {"http": 80, "https": 443}
NOT_PAGES = frozenset(
    (
        "7z avi bin bmp bz2 css csv dmg doc docx eot epub exe flac gif gz ico iso jar jpeg jpg js json map mjs mov mp3 "
        "mp4 mpeg msi ogg otf pdf png ppt pptx rar rss svg tar tgz tif tiff ttf wasm wav webm webp whl woff woff2 xls "
        "xlsx xml xz zip"
    ).split()
)
"""Extensions of paths that never lead to a page."""


class Scope:
    """The hosts and patterns of one crawl.

    Crawlee's own `same-hostname` is not used: it ignores ports, which distinguish sites on a loopback address, and it
    stops where a start URL redirects to another host (`example.com` to `www.example.com`).
    """

    def __init__(self, settings: Settings) -> None:
        self._link_scope = settings.link_scope
        self._include = [Glob(pattern) for pattern in settings.include_globs]
        self._exclude = [Glob(pattern) for pattern in settings.exclude_globs]
        self._hosts: set[tuple[str, int | None]] = set()
        for url in settings.start_urls:
            self.add_host_of(url)

    def add_host_of(self, url: str) -> None:
        """Add the host of this URL (a start URL, or its redirect target) to the hosts of the crawl."""
        self._hosts.add(_host(urlsplit(url)))

    def contains(self, url: str) -> bool:
        """Whether the URL lies on a host of the crawl."""
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            return False
        host, port = _host(parts)
        match self._link_scope:
            case "any":
                return True
            case "subdomains":
                return any(port == own_port and _is_below(host, own) for own, own_port in self._hosts)
            case _:
                return (host, port) in self._hosts

    def follows(self, url: str) -> bool:
        """Whether a link to this URL is followed."""
        return self.contains(url) and _may_be_page(url) and self._matches(url) and is_web_address(url)

    def _matches(self, url: str) -> bool:
        """Whether the URL matches some include pattern, where there are any, and no exclude pattern."""
        return (not self._include or _any_matches(self._include, url)) and not _any_matches(self._exclude, url)


def _host(parts: SplitResult) -> tuple[str, int | None]:
    """Host and port. All default ports count as the same, because http and https of a host are one site."""
    port = parts.port
    return (parts.hostname or "").rstrip("."), None if port == DEFAULT_PORTS.get(parts.scheme) else port


def _is_below(host: str, own: str) -> bool:
    domain = own.removeprefix("www.")
    return host == domain or host.endswith(f".{domain}")


def _may_be_page(url: str) -> bool:
    name = urlsplit(url).path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() not in NOT_PAGES or "." not in name


def _any_matches(globs: Iterable[Glob], url: str) -> bool:
    return any(glob.regexp.match(url) for glob in globs)
