"""The site crawler's input, checked, and the web addresses that it accepts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urldefrag, urlsplit

from apify import Request

HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?|[\da-f:.]+")
LINK_SCOPES = ("same-host", "subdomains", "any")


class InputError(ValueError):
    """Input of the run that breaks a rule, which the message names."""


@dataclass(frozen=True)
class Settings:
    """Start, scope and limits of a crawl."""

    start_urls: tuple[str, ...]
    link_scope: str
    include_globs: tuple[str, ...]
    exclude_globs: tuple[str, ...]
    max_depth: int
    max_pages: int
    max_concurrency: int
    max_retries: int
    request_timeout_seconds: int
    respect_robots_txt: bool
    main_content_only: bool
    save_failed_pages: bool

    @classmethod
    def parse(cls, raw: object) -> "Settings":
        """Read the Actor's input; raises `InputError` on the first value that breaks a rule."""
        fields = _as_mapping(raw)
        return cls(
            start_urls=_start_urls(fields),
            link_scope=_choice(fields, "linkScope", LINK_SCOPES),
            include_globs=_strings(fields, "includeGlobs"),
            exclude_globs=_strings(fields, "excludeGlobs"),
            max_depth=_integer(fields, "maxDepth", 3, 0, 100),
            max_pages=_integer(fields, "maxPages", 30, 1, 1_000_000),
            max_concurrency=_integer(fields, "maxConcurrency", 10, 1, 200),
            max_retries=_integer(fields, "maxRetries", 2, 0, 10),
            request_timeout_seconds=_integer(fields, "requestTimeoutSecs", 30, 1, 600),
            respect_robots_txt=_flag(fields, "respectRobotsTxt", True),
            main_content_only=_flag(fields, "mainContentOnly", True),
            save_failed_pages=_flag(fields, "saveFailedPages", True),
        )


def is_web_address(url: str) -> bool:
    """Return whether all users of the URL (urllib, Crawlee, its HTTP client) accept it.

    Crawlee aborts the whole crawl for a host name that only some of them accept. A URL with a password is not accepted:
    it would appear in rows, logs and status messages.
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
    """Return the URL without its fragment."""
    return urldefrag(url).url


def _start_urls(fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return the start URLs without repetition, given as strings or as `{"url": ...}`, the form of Apify's editor."""
    entries = _list(fields, "startUrls")
    urls = dict.fromkeys(_start_url(entry) for entry in entries)
    if not urls:
        raise InputError("startUrls must name at least one URL")
    return tuple(urls)


def _start_url(entry: object) -> str:
    url = cast("Mapping[str, object]", entry).get("url") if isinstance(entry, Mapping) else entry
    if not isinstance(url, str):
        raise InputError(f'startUrls must hold URLs, or objects like {{"url": "https://example.com"}}, not {entry!r}')
    url = url.strip()
    if not is_web_address(url):
        raise InputError(f"start URL {url!r} is not an http(s) address such as https://example.com/docs")
    return without_fragment(url)


def _choice(fields: Mapping[str, object], name: str, choices: Sequence[str]) -> str:
    """Return one of the choices, the first of them if the field is absent."""
    value = fields.get(name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return str(value)


def _strings(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a list of strings. Objects like `{"glob": ...}`, from Apify's glob editor, are accepted, too."""
    texts: list[str] = []
    for entry in _list(fields, name):
        text = cast("Mapping[str, object]", entry).get("glob") if isinstance(entry, Mapping) else entry
        if not isinstance(text, str) or not text:
            raise InputError(f"{name} must hold texts, not {entry!r}")
        texts.append(text)
    return tuple(texts)


def _list(fields: Mapping[str, object], name: str) -> Sequence[object]:
    value = fields.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, not {type(value).__name__}")
    return cast("list[object]", value)


def _integer(fields: Mapping[str, object], name: str, default: int, low: int, high: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise InputError(f"{name} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise InputError(f"{name} must be between {low} and {high}, not {value:g}")
    return int(value)


def _flag(fields: Mapping[str, object], name: str, default: bool) -> bool:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, not {value!r}")
    return value


def _as_mapping(raw: object) -> Mapping[str, object]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise InputError(f"the input must be an object, not {type(raw).__name__}")
    return cast("Mapping[str, object]", raw)
