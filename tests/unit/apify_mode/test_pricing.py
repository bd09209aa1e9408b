"""Prices by tier and time, and types of rows, without a platform."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.workflows.tools.apify.actors import in_words, type_object
from outlast.workflows.tools.apify.cards import current_price, price_for, price_in_words, price_list

NOW = datetime(2027, 1, 31, tzinfo=UTC)
OLD: dict[str, Any] = {"pricingModel": "FREE", "startedAt": "2026-01-01T00:00:00.000Z"}
NEW: dict[str, Any] = {
    "pricingModel": "PRICE_PER_DATASET_ITEM",
    "startedAt": "2027-01-01T00:00:00",
    "tieredPricing": {"FREE": {"tieredPricePerUnitUsd": 2}, "GOLD": {"tieredPricePerUnitUsd": 1}},
}
LATER: dict[str, Any] = {
    "pricingModel": "FLAT_PRICE_PER_MONTH",
    "startedAt": "2027-02-01T00:00:00Z",
    "trialMinutes": 60,
}


def test_a_price_counts_from_when_it_begins() -> None:
    assert current_price({"pricingInfos": [NEW, LATER, OLD]}, NOW) == NEW
    assert current_price({"pricingInfos": [LATER, OLD, {"startedAt": "soon"}, 7]}, NOW) == OLD
    assert current_price({"pricingInfos": []}, NOW) == current_price({}, NOW) == {}
    assert current_price({"currentPricingInfo": LATER, "pricingInfos": [OLD]}, NOW) == LATER


@pytest.mark.parametrize(("tier", "price", "note"), [("FREE", 2, True), ("GOLD", 1, True), ("SILVER", 2, True)])
def test_a_tier_without_a_price_pays_that_of_the_lowest(tier: str, price: int, note: bool) -> None:
    found = price_for(NEW, tier)
    assert (found["pricePerUnit"], "pricingNote" in found) == (price, note)
    assert f"${price} per result" in price_in_words(found)


def test_all_prices_are_told_where_they_are_asked_for() -> None:
    assert price_list(NEW, "GOLD")["tieredPricing"] == [
        {"tier": "FREE", "pricePerUnit": 2},
        {"tier": "GOLD", "pricePerUnit": 1},
    ]
    assert price_in_words(price_list(LATER, "GOLD")) == "$0 per month, after 60 free minutes."
    assert price_list({}, "GOLD") == {"model": "FREE", "userTier": "GOLD"}


def test_types_of_rows() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "url": {"type": "string", "format": "uri"},
            "count": {"type": ["integer", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "user": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"name": {"type": "string"}}}]},
            "any": {},
        },
    }
    types = type_object(schema)
    assert types == {
        "url": "string",
        "count": "number | null",
        "tags": ["string"],
        "user": {"name": "string"},
        "any": "unknown",
    }
    assert in_words(types).startswith("{ url: string, count: number | null, tags: string[], user: { name: string }")
    assert type_object({"type": "string"}) == {}
