"""What counts as the address of a page."""

import re
from urllib.parse import urldefrag, urlsplit

from apify import Request

HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?|[\da-f:.]+")


def is_web_address(url: str) -> bool:
    """Whether every part that handles the URL (urllib, Crawlee, its HTTP client) accepts it.

    They do not agree, and Crawlee aborts the whole crawl for a host name that only some of them accept. A URL with a
    password is not accepted: it would appear in rows, logs and status messages.
    """
    try:
        parts = urlsplit(url)
        Request.from_url(url)  # A pydantic `ValidationError` is a `ValueError`.
        return (
            parts.scheme in {"http", "https"}
            and HOST_NAME.fullmatch(parts.hostname or "") is not None
            and parts.port != 0
            and parts.username is None
        )
    except ValueError:
        return False


def without_fragment(url: str) -> str:
    """The URL without its fragment."""
    return urldefrag(url).url
