"""Prices of an Actor: by the platform's object, for one tier of plans or for all of them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError

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
