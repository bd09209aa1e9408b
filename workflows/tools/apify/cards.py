"""The card of an Actor: the platform's object as the fields of answers, and as Markdown."""

from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.apify.pricing import TIERS, known, price_in_words
from outlast.workflows.tools.apify.schemas import answer, array, flag, members, number, text, whole_answer

MAX_INPUT_FIELDS = 20
"""Most fields of an Actor's input in a card."""
_STORE = "https://apify.com"
_OFFICIAL = "apify"
_TIER: JsonObject = text("The tier of the user's plan.", enum=[*TIERS])
_TEXTS = members(text(), "title", "description")
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
                {**_TEXTS, "priceUsd": number(), "tieredPricing": array(answer({"tier": text(), "priceUsd": number()}))}
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
        "properties": {"type": "object", "additionalProperties": answer({"type": {}}, required=("type",))},
        "required": array(text()),
    },
    required=("type", "properties"),
)
CARD: JsonObject = answer(
    {
        **members(text(), "title", "url", "id"),
        "fullName": text("`user/name`, by which the Actor is called."),
        "pictureUrl": text(),
        "developer": whole_answer({"username": text(), "isOfficialApify": flag(), "url": text()}),
        "description": text(),
        "categories": array(text()),
        "pricing": _PRICING,
        "stats": answer(members(number(), "totalUsers", "monthlyUsers", "bookmarks")),
        "rating": answer(members(number(), "average", "count")),
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
    *("id", "username", "name", "title", "description", "pictureUrl", "categories", "stats", "actorReviewRating"),
    *("actorReviewCount", "bookmarkCount", "modifiedAt", "isDeprecated", "currentPricingInfo", "pricingInfos"),
)
"""Members of an Actor's object for a card. Its sources and variables are in no history."""


def card_of(actor: JsonObject, pricing: JsonObject) -> JsonObject:
    """Return the card of an Actor from the Store's entry, or from the Actor's own object (Apify API v2)."""
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
        "developer": {"username": username, "isOfficialApify": username == _OFFICIAL, "url": f"{_STORE}/{username}"},
        "description": actor.get("description") or "",
        "categories": [
            str(each).replace("_", " ").title() for each in cast(list[JsonValue], actor.get("categories") or [])
        ],
        "pricing": pricing,
        "stats": known(
            totalUsers=stats.get("totalUsers"),
            monthlyUsers=stats.get("totalUsers30Days"),
            bookmarks=stats.get("bookmarkCount", actor.get("bookmarkCount")),
        ),
        "rating": known(**rating) if rating["average"] else None,
        "modifiedAt": actor.get("modifiedAt"),
        "isDeprecated": bool(actor.get("isDeprecated")),
        **_input_fields(actor.get("inputSchema")),
    }
    return {key: value for key, value in card.items() if value not in (None, {})}


def card_as_markdown(card: JsonObject) -> str:
    """Return the card as Markdown, with one fact per line."""
    name, pricing, stats = card["fullName"], cast("dict[str, Any]", card.get("pricing") or {}), card.get("stats")
    developer = cast("dict[str, Any]", card["developer"])
    rating = cast("dict[str, Any]", card.get("rating") or {})
    lines = [
        f"## [{card.get('title', name)}]({card['url']}) (`{name}`)",
        f"- **URL:** {card['url']}",
        f"- **Description:** {card['description']}" if card.get("description") else "",
        f"- **[Pricing]({card['url']}/pricing):** {price_in_words(pricing)}" if pricing else "",
        f"- **Stats:** {_counted(cast('dict[str, Any]', stats))}" if stats else "",
        f"- **Rating:** {rating.get('average')} of 5, {rating.get('count')} reviews" if rating else "",
        f"- **Developed by:** [{developer['username']}]({developer['url']})",
        f"- **Categories:** {', '.join(map(str, cast(list[JsonValue], card['categories'])))}"
        if card.get("categories")
        else "",
        f"- **Last modified:** {card['modifiedAt']}" if card.get("modifiedAt") else "",
        "- **Deprecated:** do not use it for new work." if card.get("isDeprecated") else "",
        _fields_in_words(card),
    ]
    return "\n".join(line for line in lines if line)


def _input_fields(schema: JsonValue) -> JsonObject:
    """Return the first fields of the Actor's input with their types, as the Store lists them."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return {}
    typed = {name: field for name, field in properties.items() if isinstance(field, dict) and "type" in field}
    shown: JsonObject = dict([*typed.items()][:MAX_INPUT_FIELDS])
    required = schema.get("required")
    fields: JsonObject = {**schema, "type": "object", "properties": shown}
    if isinstance(required, list):
        fields["required"] = [name for name in required if name in shown]
    cut: JsonObject = {"inputFieldsTruncated": True, "inputFieldsTotalCount": len(typed)}
    return {"inputFields": fields, **(cut if len(typed) > MAX_INPUT_FIELDS else {})}


def _fields_in_words(card: JsonObject) -> str:
    """Return `url: string, maxResults?: number`, with a question mark for optional fields."""
    fields = cast("dict[str, Any]", card.get("inputFields") or {})
    required = fields.get("required") or ()
    properties = cast("dict[str, Any]", fields.get("properties") or {})
    named = [
        f"{name}{'' if name in required else '?'}: {_type_in_words(field['type'])}"
        for name, field in properties.items()
    ]
    more = cast(int, card.get("inputFieldsTotalCount") or 0) - len(named)
    return f"- **Input fields:** {', '.join(named)}{f' and {more} more' if more > 0 else ''}" if named else ""


def _type_in_words(kind: JsonValue) -> str:
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _counted(stats: dict[str, Any]) -> str:
    words = {"totalUsers": "users in all", "monthlyUsers": "in the last 30 days", "bookmarks": "bookmarks"}
    return ", ".join(f"{stats[name]} {label}" for name, label in words.items() if name in stats)
