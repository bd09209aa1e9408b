"""The card of an Actor and its prices: the platform's objects as the fields of answers, and as Markdown."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify.schemas import answer, array, flag, members, number, text, whole_answer

TIERS = ("FREE", "BRONZE", "SILVER", "GOLD", "PLATINUM", "DIAMOND")
FREE_TIER, HIGHEST_TIER = TIERS[0], TIERS[-1]
_FREE = "FREE"
_MAX_DESCRIBED_EVENTS = 5
_NOT_DESCRIBED = "There are many events: fetch-actor-details describes each."


async def tier_of(ctx: HandlerContext) -> str:
    """Return the tier of the user's plan; the lowest if it is unknown or no account pays."""
    if ctx.call.caller.payment is not None:
        return FREE_TIER
    try:
        plan = (await ctx.platform.part("users", "me", members=("plan",))).get("plan")
    except ToolError:
        return FREE_TIER
    tier = str(plan.get("tier") or "").upper() if isinstance(plan, dict) else ""
    return tier if tier in TIERS else FREE_TIER


def current_price(actor: JsonObject, now: datetime) -> JsonObject:
    """Return the pricing info of the API that applies at `now`."""
    info = actor.get("currentPricingInfo")
    if isinstance(info, dict):
        return info
    infos = [each for each in cast(list[JsonValue], actor.get("pricingInfos") or []) if isinstance(each, dict)]
    begun = [each for each in infos if (since := _moment(each.get("startedAt"))) is not None and since <= now]
    newest = sorted(begun, key=lambda each: cast(datetime, _moment(each.get("startedAt"))))
    return newest[-1] if newest else {}


def price_list(info: JsonObject, tier: str) -> JsonObject:
    """Return the prices of all tiers. `tier` is the user's."""
    model = _model(info)
    pricing: JsonObject = {"model": model, "userTier": tier}
    if model == "PAY_PER_EVENT":
        events: list[JsonValue] = [_event(event) for event in _events(info)]
        return {**pricing, "events": events} if _has_events(info) else pricing
    if model == _FREE:
        return pricing
    tiered = _tiers(info.get("tieredPricing"), "tieredPricePerUnitUsd", "pricePerUnit")
    unit = known(**_unit(info, model), pricePerUnit=info.get("pricePerUnitUsd") or 0, tieredPricing=tiered)
    return {**pricing, **unit}


def price_for(info: JsonObject, tier: str) -> JsonObject:
    """Return the prices for a user of this tier, with a note on the tier if there are several."""
    model = _model(info)
    if model == _FREE or (model == "PAY_PER_EVENT" and not _has_events(info)):
        return {"model": model}
    if model == "PAY_PER_EVENT":
        return {"model": model, **_events_for(info, tier)}
    tiers = info.get("tieredPricing")
    found = _chosen(tiers, tier)
    price = found[1].get("tieredPricePerUnitUsd") if found else info.get("pricePerUnitUsd") or 0
    note = _note({found[0]} if found else set(), several=_count(tiers) > 1)
    return {"model": model, **known(**_unit(info, model), pricePerUnit=price), **note}


def price_in_words(pricing: JsonObject) -> str:
    """Return the result of `price_list` or `price_for` as text."""
    given = cast("dict[str, Any]", pricing)
    if given.get("model") == _FREE:
        return "free; only what it uses of the platform is paid."
    if "events" in given:
        each = [f"  - **{event.get('title')}**: {_event_price(event)}" for event in given["events"]]
        notes = [str(given[name]) for name in ("pricingNote", "eventDescriptionsNote") if name in given]
        return "\n".join(["per event:", *each, *notes])
    unit = f"per {given['unitName']}" if "unitName" in given else "per month"
    tiers = ", ".join(f"{one['tier']} ${one['pricePerUnit']}" for one in given.get("tieredPricing") or ())
    trial = f", after {given['trialMinutes']} free minutes" if given.get("trialMinutes") else ""
    note = f" {given['pricingNote']}" if "pricingNote" in given else ""
    return f"{tiers or '$' + str(given.get('pricePerUnit', 0))} {unit}{trial}.{note}"


def _event_price(event: dict[str, Any]) -> str:
    tiers = ", ".join(f"{one['tier']} ${one['priceUsd']}" for one in event.get("tieredPricing") or ())
    price = f"${event['priceUsd']}" if event.get("priceUsd") is not None else tiers or "no price is known"
    return f"{event['description']} ({price})" if event.get("description") else price


def _events_for(info: JsonObject, tier: str) -> JsonObject:
    events = _events(info)
    is_long = len(events) > _MAX_DESCRIBED_EVENTS
    shown: list[JsonValue] = []
    resolved: set[str] = set()
    for event in events:
        priced = _event(event)
        if is_long:
            priced.pop("description", None)
        found = _chosen(event.get("eventTieredPricingUsd"), tier)
        priced.pop("tieredPricing", None)
        price = found[1].get("tieredEventPriceUsd") if found is not None else None
        if "priceUsd" not in priced and found is not None and price is not None:
            resolved.add(found[0])
            priced["priceUsd"] = price
        shown.append(priced)
    several = any(_count(event.get("eventTieredPricingUsd")) > 1 for event in events)
    omitted: JsonObject = {"eventDescriptionsOmitted": True, "eventDescriptionsNote": _NOT_DESCRIBED} if is_long else {}
    return {"events": shown, **omitted, **_note(resolved, several=several)}


def _note(resolved: set[str], *, several: bool) -> JsonObject:
    """Return a note on the tier of the prices if another tier may pay less."""
    tier = next(iter(resolved), HIGHEST_TIER)
    if not several or len(resolved) != 1 or tier == HIGHEST_TIER:
        return {}
    return {"pricingNote": f"Prices of tier {tier}; higher ones may pay less: fetch-actor-details has them all."}


def _event(event: JsonObject) -> dict[str, JsonValue]:
    price = event.get("eventPriceUsd")
    return known(
        title=event.get("eventTitle"),
        description=event.get("eventDescription") or "",
        priceUsd=price if isinstance(price, int | float) else None,
        tieredPricing=_tiers(event.get("eventTieredPricingUsd"), "tieredEventPriceUsd", "priceUsd"),
    )


def _unit(info: JsonObject, model: str) -> dict[str, JsonValue]:
    if model == "FLAT_PRICE_PER_MONTH":
        return {"trialMinutes": info.get("trialMinutes")}
    return {"unitName": info.get("unitName") or "result"} if model == "PRICE_PER_DATASET_ITEM" else {}


def _chosen(tiers: JsonValue, tier: str) -> tuple[str, JsonObject] | None:
    """Return the price of the tier, or of the lowest tier, or the first price."""
    if not isinstance(tiers, dict):
        return None
    priced = {name: price for name, price in tiers.items() if isinstance(price, dict)}
    name = next((each for each in (tier, FREE_TIER, *priced) if each in priced), None)
    return (name, priced[name]) if name is not None else None


def _tiers(tiers: JsonValue, key: str, shown: str) -> list[JsonValue] | None:
    if not isinstance(tiers, dict) or not tiers:
        return None
    return [
        {"tier": tier, shown: price[key]} for tier, price in tiers.items() if isinstance(price, dict) and key in price
    ]


def _count(tiers: JsonValue) -> int:
    return len(tiers) if isinstance(tiers, dict) else 0


def _model(info: JsonObject) -> str:
    return str(info.get("pricingModel") or _FREE)


def _has_events(info: JsonObject) -> bool:
    per_event = info.get("pricingPerEvent")
    return isinstance(per_event, dict) and isinstance(per_event.get("actorChargeEvents"), dict)


def _events(info: JsonObject) -> list[JsonObject]:
    per_event = cast("dict[str, Any]", info.get("pricingPerEvent") or {})
    events: Iterable[JsonValue] = cast("JsonObject", per_event.get("actorChargeEvents") or {}).values()
    return [event for event in events if isinstance(event, dict)]


def _moment(written: JsonValue) -> datetime | None:
    try:
        moment = datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def known(**fields: Any) -> dict[str, JsonValue]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


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
        "fullName": text("`user/name`: the name to call the Actor by."),
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
