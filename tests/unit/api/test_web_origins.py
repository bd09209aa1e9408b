"""Which pages are this server's own, which ones the operator allows, and which names this server has."""

import pytest
from pydantic import ValidationError

from outlast.api.access.web_origins import ServerNames, WebOrigins, is_origin_of
from outlast.api.settings import ApiSettings


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example",
        "https://app.example:443",
        "HTTPS://App.Example",
        "http://localhost:3000",
        "http://localhost:65535",
        "http://localhost",
        "http://[::1]:8080",
        "http://[0:0:0:0:0:0:0:1]:8080",
        "vscode-webview://abc",
    ],
)
def test_an_origin_of_the_list_is_allowed(origin: str) -> None:
    assert origin in WebOrigins(
        ["https://APP.example/", "http://localhost:*", "http://[::1]:8080", "vscode-webview://abc"]
    )


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "*",
        "https://app.example.",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://evil.example/https://app.example",
        "https://app.example https://evil.example",
        "https://app.example, https://evil.example",
        "https://evil@app.example",
        "https://app.example/",
        "https://app.example\t",
        "http://localhost:*",
        "http://localhost.evil.example:3000",
        "http://localhost:3000:80",
        "file://",
    ],
)
def test_any_other_origin_is_not(origin: str) -> None:
    assert origin not in WebOrigins(["https://app.example", "http://localhost:*"])


@pytest.mark.parametrize(
    "listed", ["*", "null", "app.example", "https://app.example/path", "https://*.example", "https://"]
)
def test_a_list_with_something_else_is_refused_at_the_start(listed: str) -> None:
    with pytest.raises(ValidationError, match="is not the origin of a page"):
        ApiSettings(allowed_origins=f"https://good.example,{listed}")


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "own"),
    [
        ("http://127.0.0.1:8400", "127.0.0.1:8400", "http", True),
        ("HTTP://LOCALHOST:8400", "localhost:8400", "http", True),
        ("http://[::1]:8400", "[0::1]:8400", "http", True),
        ("http://outlast.example", "outlast.example:80", "http", True),
        ("https://outlast.example", "outlast.example", "http", True),
        ("https://outlast.example:443", "outlast.example", "https", True),
        ("http://outlast.example", "outlast.example", "https", False),
        ("http://127.0.0.1:3000", "127.0.0.1:8400", "http", False),
        ("http://localhost:8400", "127.0.0.1:8400", "http", False),
        ("http://outlast.example.", "outlast.example", "http", False),
        ("http://outlast.example:8400", "outlast.example", "http", False),
        ("null", "null", "http", False),
        ("", "", "http", False),
        ("file://outlast.example", "outlast.example", "http", False),
    ],
)
def test_a_page_of_this_server_has_its_host_and_port(origin: str, host: str, scheme: str, own: bool) -> None:
    assert is_origin_of(origin, host, scheme=scheme) is own


def test_names_of_the_server_take_any_port_unless_they_say_one() -> None:
    names = ServerNames(["outlast.example", "other.example:8443", "third.example:*", "::1"])
    good = ("outlast.example", "OUTLAST.example:80", "other.example:8443", "third.example:7", "[::1]:8400")
    assert all(name in names for name in good)
    bad = (
        "",
        "other.example",
        "other.example:8444",
        "outlast.example.evil",
        "evil:outlast.example",
        "outlast.example.",
    )
    assert not any(name in names for name in bad)
