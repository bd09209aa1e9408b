"""Maps the platform's Actor objects to cards. Tolerant of missing and malformed fields: publishers write them."""

from datetime import datetime
from typing import cast

from pydantic import JsonValue

from outlast.activities.actors import contracts as contract
from outlast.activities.contracts import JsonObject
from outlast.activities.platform import apify

_STORE_PAGE = "https://apify.com"
_MAX_EVENTS = 20
_PER_MONTH = "FLAT_PRICE_PER_MONTH"
_PER_RESULT = "PRICE_PER_DATASET_ITEM"
_PER_EVENT = "PAY_PER_EVENT"


def card_of_store_item(item: "apify.StoreActor") -> contract.ActorCard:
    """The card of an Actor found in the Store."""
    pricing = item.current_pricing_info
    return contract.ActorCard(
        actor_id=item.id,
        full_name=f"{item.username}/{item.name}",
        title=item.title or item.name,
        description=item.description or "",
        developer=item.user_full_name or item.username,
        url=str(item.url) if item.url else f"{_STORE_PAGE}/{item.username}/{item.name}",
        categories=tuple(item.categories or ()),
        pricing=pricing_of(pricing.model_dump(by_alias=True, mode="json")) if pricing else None,
        stats=_stats(item.stats, item.actor_review_rating, item.actor_review_count, item.bookmark_count),
        notice=item.notice.value if item.notice not in (None, apify.ActorNotice.NONE) else None,
    )


def card_of_actor(actor: "apify.ActorResource") -> contract.ActorCard:
    """The card of an Actor object."""
    document = cast(JsonObject, actor.model_dump(by_alias=True, mode="json"))
    infos = document.get("pricingInfos")
    current = infos[-1] if isinstance(infos, list) and infos else None
    categories = document.get("categories")
    return contract.ActorCard(
        actor_id=actor.id,
        full_name=f"{actor.username}/{actor.name}",
        title=actor.title or actor.name,
        description=actor.description or "",
        developer=actor.username,
        url=f"{_STORE_PAGE}/{actor.username}/{actor.name}" if document.get("isPublic") is True else None,
        categories=tuple(str(name) for name in categories) if isinstance(categories, list) else (),
        pricing=pricing_of(current) if isinstance(current, dict) else pricing_of({}),
        stats=_stats(actor.stats),
        is_deprecated=document.get("isDeprecated") is True,
    )


def pricing_of(info: JsonObject) -> contract.ActorPricing:
    """The price of an Actor (Apify API v2, `currentPricingInfo`). The summary names unknown pricing models."""
    model = str(info.get("pricingModel") or "FREE")
    price = _number(info.get("pricePerUnitUsd")) or _first_tier(info.get("tieredPricing"), "tieredPricePerUnitUsd")
    events = _events(info) if model == _PER_EVENT else ()
    return contract.ActorPricing(
        model=model,
        summary=_summary(model, price, events, info),
        price_per_1000_results_usd=round(price * 1_000, 6) if model == _PER_RESULT and price is not None else None,
        price_per_month_usd=price if model == _PER_MONTH else None,
        trial_minutes=int(_number(info.get("trialMinutes")) or 0) or None,
        events=events,
    )


def _summary(model: str, price: float | None, events: tuple[contract.PricedEvent, ...], info: JsonObject) -> str:
    match model:
        case "FREE":
            return "Free; you pay for platform usage only."
        case "PRICE_PER_DATASET_ITEM" if price is not None:
            return f"{_usd(price * 1_000)} per 1,000 results."
        case "FLAT_PRICE_PER_MONTH" if price is not None:
            days = (_number(info.get("trialMinutes")) or 0) / 1_440
            trial = f", after a trial of {days:g} days" if days else ""
            return f"{_usd(price)} per month{trial}, plus platform usage."
        case "PAY_PER_EVENT":
            shown = [f"{event.title}: {_usd(event.price_usd)}" for event in events[:3]]
            more = f" and {len(events) - 3} more" if len(events) > 3 else ""
            return f"Pay per event ({'; '.join(shown)}{more})." if shown else "Pay per event."
        case _:
            return f"Pricing model {model}."


def _events(info: JsonObject) -> tuple[contract.PricedEvent, ...]:
    per_event = info.get("pricingPerEvent")
    events = per_event.get("actorChargeEvents") if isinstance(per_event, dict) else None
    if not isinstance(events, dict):
        return ()
    found: list[contract.PricedEvent] = []
    for name, event in list(events.items())[:_MAX_EVENTS]:
        if not isinstance(event, dict):
            continue
        price = _number(event.get("eventPriceUsd"))
        if price is None:
            price = _first_tier(event.get("eventTieredPricingUsd"), "tieredEventPriceUsd")
        found.append(
            contract.PricedEvent(
                name=name,
                title=str(event.get("eventTitle") or name),
                description=str(event.get("eventDescription") or ""),
                price_usd=price or 0.0,
            )
        )
    return tuple(found)


def _first_tier(tiers: JsonValue, key: str) -> float | None:
    """The price of the lowest tier, which new accounts pay."""
    first = next(iter(tiers.values()), None) if isinstance(tiers, dict) else None
    return _number(first.get(key)) if isinstance(first, dict) else None


def _stats(
    stats: "apify.ActorStats | None",
    rating: float | None = None,
    reviews: int | None = None,
    bookmarks: int | None = None,
) -> contract.ActorStats:
    if stats is None:
        return contract.ActorStats()
    last: datetime | None = stats.last_run_started_at
    return contract.ActorStats(
        total_users=stats.total_users,
        monthly_users=stats.total_users30_days,
        total_runs=stats.total_runs,
        bookmarks=bookmarks if bookmarks is not None else stats.bookmark_count,
        rating=rating if rating is not None else stats.actor_review_rating,
        review_count=reviews if reviews is not None else stats.actor_review_count,
        success_rate=_success_rate(stats),
        last_run_started_at=last,
    )


def _success_rate(stats: "apify.ActorStats") -> float | None:
    """The share of ended runs that succeeded. Aborted runs do not count: their users ended them."""
    runs = stats.public_actor_run_stats30_days
    if runs is None:
        return None
    ended = (runs.succeeded or 0) + (runs.failed or 0) + (runs.timed_out or 0)
    return round((runs.succeeded or 0) / ended, 4) if ended else None


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _usd(price: float) -> str:
    return f"${price:,.2f}" if price >= 0.1 else f"${price:.6f}".rstrip("0").rstrip(".")
