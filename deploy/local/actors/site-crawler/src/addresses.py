"""What counts as the address of a page."""

import re
from urllib.parse import urldefrag, urlsplit

from apify import Request

HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?|[\da-f:.]+")


def is_web_address(url: str) -> bool:
    """Whether everything that will handle the URL (urllib, Crawlee, its HTTP client) takes it for an address.

    They do not agree, and Crawlee gives up the whole crawl over a host name that only some of them take. An address
    with a password is none: it would stand in rows, logs and status messages.
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
    """The URL of the page, without the place in it."""
    return urldefrag(url).url
