"""From the platform's Actor objects to cards; and where an Actor that serves HTTP is found."""

from typing import Any

import pytest

from outlast.activities.actors.activities import _Definition, pricing_of
from outlast.activities.mcp_servers.activities import standby_url


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({}, "Free; you pay for platform usage only."),
        ({"pricingModel": "PRICE_PER_DATASET_ITEM", "pricePerUnitUsd": 0.0025}, "$2.50 per 1,000 results."),
        (
            {"pricingModel": "PRICE_PER_DATASET_ITEM", "tieredPricing": {"FREE": {"tieredPricePerUnitUsd": 0.00005}}},
            "$0.05 per 1,000 results.",
        ),
        (
            {"pricingModel": "FLAT_PRICE_PER_MONTH", "pricePerUnitUsd": 45, "trialMinutes": 4320},
            "$45.00 per month, after a trial of 3 days, plus platform usage.",
        ),
        (
            {
                "pricingModel": "PAY_PER_EVENT",
                "pricingPerEvent": {
                    "actorChargeEvents": {
                        "place": {"eventTitle": "Place", "eventPriceUsd": 0.004},
                        "review": {"eventTieredPricingUsd": {"FREE": {"tieredEventPriceUsd": 0.0005}}},
                        "broken": "not an event",
                    }
                },
            },
            "Pay per event (Place: $0.004; review: $0.0005).",
        ),
        ({"pricingModel": "BARTER"}, "Pricing model BARTER."),
    ],
)
def test_prices_are_put_into_words(info: dict[str, Any], words: str) -> None:
    assert pricing_of(info).summary == words


@pytest.mark.parametrize(
    ("paths", "path"),
    [
        ("/mcp", "/mcp"),
        ("/sse, /mcp", "/mcp"),
        ("/sse", "/sse"),
        ("@evil.example/mcp", None),
        ("//evil.example/mcp", None),
        (".evil.example/mcp", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_path_of_the_actors_own_host_is_an_mcp_path(paths: str | None, path: str | None) -> None:
    assert _Definition.model_validate({"webServerMcpPath": paths}).mcp_path == path


@pytest.mark.parametrize(
    ("full_name", "host"),
    [
        ("apify/actors-mcp-server", "apify--actors-mcp-server"),
        ("jan.novak/server", "zdc3pyhyz3m8vjdem"),
        (f"long/{'x' * 60}", "zdc3pyhyz3m8vjdem"),
    ],
)
def test_on_apify_an_actor_has_a_host_of_its_own(full_name: str, host: str) -> None:
    url = standby_url("https://api.apify.com", full_name=full_name, actor_id="zdc3Pyhyz3m8vjDeM", path="/mcp")
    assert url == f"https://{host}.apify.actor/mcp"


def test_elsewhere_it_is_a_path_of_the_platform() -> None:
    url = standby_url("http://127.0.0.1:8700", full_name="outlast/toolbox", actor_id="x", path="/mcp")
    assert url == "http://127.0.0.1:8700/standby/outlast~toolbox/mcp"
