"""The card of an Actor: from the platform's object to the fields that answers have, and to Markdown."""

from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.apify.schemas.build import answer, array, flag, number, text

TIERS = ("FREE", "BRONZE", "SILVER", "GOLD", "PLATINUM", "DIAMOND")
FREE_TIER = TIERS[0]
"""Whose prices are shown: what an account pays at most."""
_STORE = "https://apify.com"
_OFFICIAL = "apify"
_TIER: JsonObject = text("The tier of the user's plan.", enum=[*TIERS])
_PRICING: JsonObject = answer(
    {
        "model": text("FREE, PRICE_PER_DATASET_ITEM, FLAT_PRICE_PER_MONTH or PAY_PER_EVENT."),
        "userTier": _TIER,
        "pricePerUnit": number("In US dollars."),
        "unitName": text(),
        "trialMinutes": number(),
        "tieredPricing": array(answer({"tier": text(), "pricePerUnit": number()})),
        "events": array(
            answer(
                {
                    "title": text(),
                    "description": text(),
                    "priceUsd": number(),
                    "tieredPricing": array(answer({"tier": text(), "priceUsd": number()})),
                }
            )
        ),
        "pricingNote": text(),
        "eventDescriptionsOmitted": flag(),
        "eventDescriptionsNote": text(),
    },
    required=("model",),
)
_INPUT_FIELDS: JsonObject = answer(
    {
        "type": text(),
        "properties": {
            "type": "object",
            "additionalProperties": answer({"type": {}}, required=("type",)),
        },
        "required": array(text()),
    },
    required=("type", "properties"),
)
CARD: JsonObject = answer(
    {
        "title": text(),
        "url": text(),
        "id": text(),
        "fullName": text("`user/name`, by which the Actor is called."),
        "pictureUrl": text(),
        "developer": answer(
            {"username": text(), "isOfficialApify": flag(), "url": text()},
            required=("username", "isOfficialApify", "url"),
        ),
        "description": text(),
        "categories": array(text()),
        "pricing": _PRICING,
        "stats": answer({"totalUsers": number(), "monthlyUsers": number(), "bookmarks": number()}),
        "rating": answer({"average": number(), "count": number()}),
        "modifiedAt": text(),
        "isDeprecated": flag(),
        "inputFields": _INPUT_FIELDS,
        "inputFieldsTruncated": flag(),
        "inputFieldsTotalCount": number(),
    },
    required=("url", "id", "fullName", "developer", "description", "categories", "isDeprecated"),
)
USER_TIER = _TIER
CARD_MEMBERS = (
    "id",
    "username",
    "name",
    "title",
    "description",
    "pictureUrl",
    "categories",
    "stats",
    "actorReviewRating",
    "actorReviewCount",
    "bookmarkCount",
    "modifiedAt",
    "isDeprecated",
    "currentPricingInfo",
    "pricingInfos",
)
"""What a card is made of. An Actor's own object has its sources and variables besides, which no history holds."""
_UNITS = {"PRICE_PER_DATASET_ITEM": "result"}


def card_of(actor: JsonObject) -> JsonObject:
    """The card of an Actor as the Store lists it, or as the Actor's own object (Apify API v2)."""
    username, name = str(actor.get("username")), str(actor.get("name"))
    stats = cast("dict[str, Any]", actor.get("stats") or {})
    rating = {
        "average": actor.get("actorReviewRating", stats.get("actorReviewRating")),
        "count": actor.get("actorReviewCount", stats.get("actorReviewCount")),
    }
    card: dict[str, JsonValue] = {
        "title": actor.get("title") or name,
        "url": f"{_STORE}/{username}/{name}",
        "id": actor.get("id"),
        "fullName": f"{username}/{name}",
        "pictureUrl": actor.get("pictureUrl"),
        "developer": {
            "username": username,
            "isOfficialApify": username == _OFFICIAL,
            "url": f"{_STORE}/{username}",
        },
        "description": actor.get("description") or "",
        "categories": [_in_words(each) for each in cast(list[JsonValue], actor.get("categories") or [])],
        "pricing": pricing_of(actor),
        "stats": _known(
            totalUsers=stats.get("totalUsers"),
            monthlyUsers=stats.get("totalUsers30Days"),
            bookmarks=stats.get("bookmarkCount", actor.get("bookmarkCount")),
        ),
        "rating": _known(**rating) if rating["average"] else None,
        "modifiedAt": actor.get("modifiedAt"),
        "isDeprecated": bool(actor.get("isDeprecated")),
    }
    return {key: value for key, value in card.items() if value not in (None, {})}


def pricing_of(actor: JsonObject) -> JsonObject:
    """What an Actor costs now; without a price it is free, and only the platform's usage is paid."""
    info = actor.get("currentPricingInfo")
    if not isinstance(info, dict):
        infos = actor.get("pricingInfos")
        last = infos[-1] if isinstance(infos, list) and infos else None
        info = last if isinstance(last, dict) else {}
    model = str(info.get("pricingModel") or "FREE")
    per_event = cast("dict[str, Any]", info.get("pricingPerEvent") or {})
    events = cast("dict[str, JsonObject]", per_event.get("actorChargeEvents") or {})
    listed = [_event(event) for event in events.values()]
    priced = _known(
        model=model,
        pricePerUnit=info.get("pricePerUnitUsd"),
        unitName=info.get("unitName") or _UNITS.get(model),
        trialMinutes=info.get("trialMinutes"),
        tieredPricing=_tiers(info.get("tieredPricing"), "tieredPricePerUnitUsd", "pricePerUnit"),
        events=listed or None,
    )
    return {"model": "FREE"} if model == "FREE" else priced


def _event(event: JsonObject) -> JsonObject:
    return _known(
        title=event.get("eventTitle"),
        description=event.get("eventDescription"),
        priceUsd=event.get("eventPriceUsd"),
        tieredPricing=_tiers(event.get("eventTieredPricingUsd"), "tieredEventPriceUsd", "priceUsd"),
    )


def _tiers(tiers: JsonValue, key: str, shown: str) -> list[JsonValue] | None:
    if not isinstance(tiers, dict) or not tiers:
        return None
    return [
        {"tier": tier, shown: price[key]} for tier, price in tiers.items() if isinstance(price, dict) and key in price
    ]


def card_as_markdown(card: JsonObject) -> str:
    """The card in words, one fact to a line."""
    name, pricing, stats = card["fullName"], cast("dict[str, Any]", card.get("pricing") or {}), card.get("stats")
    developer = cast("dict[str, Any]", card["developer"])
    rating = cast("dict[str, Any]", card.get("rating") or {})
    lines = [
        f"## [{card.get('title', name)}]({card['url']}) (`{name}`)",
        f"- **URL:** {card['url']}",
        f"- **Description:** {card['description']}" if card.get("description") else "",
        f"- **[Pricing]({card['url']}/pricing):** {_price(pricing)}" if pricing else "",
        f"- **Stats:** {_counted(cast('dict[str, Any]', stats))}" if stats else "",
        f"- **Rating:** {rating.get('average')} of 5, {rating.get('count')} reviews" if rating else "",
        f"- **Developed by:** [{developer['username']}]({developer['url']})",
        f"- **Categories:** {', '.join(map(str, cast(list[JsonValue], card['categories'])))}"
        if card.get("categories")
        else "",
        f"- **Last modified:** {card['modifiedAt']}" if card.get("modifiedAt") else "",
        "- **Deprecated:** do not use it for new work." if card.get("isDeprecated") else "",
    ]
    return "\n".join(line for line in lines if line)


def _price(pricing: dict[str, Any]) -> str:
    if pricing["model"] == "FREE":
        return "free; only what it uses of the platform is paid."
    if "events" in pricing:
        each = "; ".join(f"{event.get('title')}: ${event.get('priceUsd', 'by tier')}" for event in pricing["events"])
        return f"per event. {each}"
    return f"${pricing.get('pricePerUnit', 'by tier')} per {pricing.get('unitName', 'month')}"


def _counted(stats: dict[str, Any]) -> str:
    words = {"totalUsers": "users in all", "monthlyUsers": "in the last 30 days", "bookmarks": "bookmarks"}
    return ", ".join(f"{stats[name]} {said}" for name, said in words.items() if name in stats)


def _in_words(category: JsonValue) -> str:
    return str(category).replace("_", " ").title()


def _known(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
