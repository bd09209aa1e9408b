"""Where the links to runs lead."""

import pytest

from outlast.worker.settings import WorkerSettings


@pytest.mark.parametrize(
    ("platform", "configured", "console"),
    [
        ("https://api.apify.com", None, "https://console.apify.com"),
        ("https://api.apify.com/", None, "https://console.apify.com"),
        ("https://api.apify.com", "https://console.example", "https://console.example"),
        ("http://127.0.0.1:8401", None, None),
    ],
)
def test_runs_of_apify_link_to_its_console(platform: str, configured: str | None, console: str | None) -> None:
    assert WorkerSettings(apify_api_base_url=platform, console_url=configured).console == console
