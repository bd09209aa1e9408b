"""Addresses of browsers that `outlast client` accepts."""

import pytest

from outlast.cli.client_tools.browser_tabs import checked_browser_url
from outlast.cli.options import BadInput


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9222",
        "http://127.0.0.1:9222/",
        "http://localhost:1",
        "http://[::1]:9222",
        "http://127.8.0.1:1",
    ],
)
def test_this_machine_is_taken(url: str) -> None:
    assert checked_browser_url(url, allow_remote=False) == url.rstrip("/")


@pytest.mark.parametrize("url", ["http://10.0.0.7:9222", "http://browser.example:9222", "http://localhost.example:1"])
def test_another_machine_has_to_be_allowed(url: str) -> None:
    with pytest.raises(BadInput, match="another machine"):
        checked_browser_url(url, allow_remote=False)
    assert checked_browser_url(url, allow_remote=True) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:9222",
        "ws://127.0.0.1:1",
        "http://127.0.0.1:0",
        "http://[",
        "http://me:pw@127.0.0.1:1",
        "http://127.0.0.1:1/x",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_passwords(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked_browser_url(url, allow_remote=True)
    assert "pw" not in refused.value.message
