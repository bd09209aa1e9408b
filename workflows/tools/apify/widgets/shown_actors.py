"""An Actor in the form that the page of Actors shows: the same for results of a search and for details."""

from typing import Any, cast

from outlast.activities.contracts import JsonObject

_RATINGS = ("actorReviewRating", "actorReviewCount")


def shown_actor(actor: JsonObject, card: JsonObject) -> JsonObject:
    """From the Store's entry, or the Actor's own object (Apify API v2), and its card.

    Every field is there, empty if need be.
    """
    stats = cast("dict[str, Any]", actor.get("stats") or {})
    counted = cast("dict[str, Any]", card.get("stats") or {})
    ratings = {name: actor.get(name, stats.get(name)) or 0 for name in _RATINGS}
    return {
        "id": card["id"],
        "name": actor.get("name"),
        "username": actor.get("username"),
        "fullName": card["fullName"],
        "title": card["title"],
        "description": card["description"],
        "pictureUrl": card.get("pictureUrl") or "",
        "stats": {**ratings, "totalUsers": counted.get("totalUsers", 0)},
        "url": card["url"],
        "currentPricingInfo": card["pricing"],
    }
