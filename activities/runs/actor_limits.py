"""The most that a run of an Actor costs by the Actor's own settings, for calls without a budget."""

from decimal import Decimal
from typing import cast

from cachetools import TTLCache

from outlast.activities.actors.cards import pricing_of
from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.platform import apify
from outlast.activities.runs.contracts import RunSpec
from outlast.activities.spending.contracts import exact_usd

_KEPT_SECONDS = 600
_KEPT_ACTORS = 1_000
_Limits = tuple[Decimal | None, Decimal | None]
"""The most that a run costs, and the price of one result."""


class ActorLimits:
    """Looks Actors up, and remembers them for ten minutes."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._known = TTLCache[tuple[str, str], _Limits](_KEPT_ACTORS, _KEPT_SECONDS)

    async def most_usd(self, client: "apify.ApifyClientAsync", caller: Caller, spec: RunSpec) -> Decimal | None:
        """The most that this run costs; None if the Actor sets no limit, or its settings cannot be read."""
        key = caller.id, spec.actor
        if key not in self._known:
            try:
                actor = await client.actor(spec.actor.replace("/", "~")).get()
            except apify.ApifyApiError:
                return None
            self._known[key] = _limits_of(actor) if actor is not None else (None, None)
        own, per_result = self._known[key]
        most = spec.budget.max_items
        of_results = per_result * most if per_result is not None and most is not None else None
        return min((usd for usd in (own, of_results) if usd is not None), default=None)


def _limits_of(actor: "apify.ActorResource") -> _Limits:
    """The `maxTotalChargeUsd` of its default run options, and its price per result (Apify API v2, Actor object)."""
    document = cast(JsonObject, actor.model_dump(by_alias=True, mode="json"))
    options, infos = document.get("defaultRunOptions"), document.get("pricingInfos")
    own = options.get("maxTotalChargeUsd") if isinstance(options, dict) else None
    current = infos[-1] if isinstance(infos, list) and infos else None
    price = pricing_of(current).price_per_1000_results_usd if isinstance(current, dict) else None
    return (
        exact_usd(own) if isinstance(own, int | float) and not isinstance(own, bool) and own > 0 else None,
        exact_usd(price) / 1_000 if price is not None else None,
    )
