"""What tools of the mode `apify` answer to their pages, with the contents of a real day."""

from datetime import UTC, datetime, timedelta
from typing import Any

JsonObject = dict[str, Any]
RUN_ID = "8fKQ2mZ1TnYxVb3Rd"
PICTURE = "https://images.apifyusercontent.com/rag-web-browser.png"
FREE: JsonObject = {"model": "FREE"}
PER_EVENT: JsonObject = {
    "model": "PAY_PER_EVENT",
    "events": [
        {"title": "Place", "description": "One place of the map.", "priceUsd": 0.004},
        {"title": "Review", "description": "One review.", "priceUsd": 0.0005},
        {"title": "Contact", "description": "E-mail and telephone.", "tieredPricing": [{"tier": "FREE"}]},
        {"title": "Picture", "description": "One picture.", "priceUsd": 0.001},
    ],
}
PER_RESULT: JsonObject = {"model": "PRICE_PER_DATASET_ITEM", "pricePerUnit": 0.0025, "unitName": "result"}


def actor(name: str, title: str, description: str, **more: Any) -> JsonObject:
    username, _, own = name.partition("/")
    rating, count, users = more.pop("numbers", (0, 0, 0))
    stats = {"actorReviewRating": rating, "actorReviewCount": count, "totalUsers": users}
    return {
        "id": own,
        "name": own,
        "username": username,
        "fullName": name,
        "title": title,
        "description": description,
        "pictureUrl": "",
        "stats": stats,
        "url": f"https://apify.com/{name}",
        "currentPricingInfo": FREE,
        **more,
    }


ACTORS = [
    actor(
        "apify/rag-web-browser",
        "RAG Web Browser",
        "Web browser for AI agents and RAG pipelines. Queries Google Search, opens the top pages and gives their "
        "content as Markdown, ready for a language model.",
        numbers=(4.6, 58, 14_812),
        pictureUrl=PICTURE,
    ),
    actor(
        "compass/crawler-google-places",
        "Google Maps Scraper",
        "Extract data from thousands of Google Maps places: reviews, opening hours, prices, contacts.",
        numbers=(4.8, 912, 231_405),
        currentPricingInfo=PER_EVENT,
    ),
    actor("outlast/site-crawler", "Site crawler", "Crawls web pages from your start URLs on.", numbers=(0, 0, 12)),
    actor(
        "jane/old-scraper",
        "Old page scraper",
        "Reads pages the way it was done in 2019.",
        numbers=(2.1, 9, 640),
        currentPricingInfo=PER_RESULT,
    ),
]


def search(actors: list[JsonObject] | None = None, query: str = "web pages") -> JsonObject:
    """The structured answer of `search-actors-widget`."""
    found = ACTORS if actors is None else actors
    cards = [{"fullName": each["fullName"], "isDeprecated": each["username"] == "jane"} for each in found]
    return {"actors": cards, "query": query, "count": len(found), "userTier": "FREE", "widgetActors": found}


README = """# Google Maps Scraper

Extracts **places** from Google Maps: [the map](https://maps.google.com), `reviews`, *opening hours*.
Ask for [help](/help) or see ![a picture](https://evil.example/x.png).

## What it gives

- name and address
  - with coordinates
- reviews

1. Enter a search.
2. Start it.

| field | meaning |
|---|---|
| `title` | name of the place |
| `phone` | with `+` and country code |

```json
{"searchStringsArray": ["restaurant"], "locationQuery": "Prague"}
```

> Places that have closed are left out.

---

<b onclick="window.pwned = 1">Markup is shown as it is.</b>
"""


def details(readme: str = README, **more: Any) -> JsonObject:
    """The structured answer of `fetch-actor-details-widget`."""
    return {"actorDetails": {"actorInfo": {**ACTORS[1], **more}, "actorCard": "## A card", "readme": readme}}


INPUT_SCHEMA: JsonObject = {
    "inputSchema": {
        "type": "object",
        "properties": {
            "maxCrawledPlaces": {"type": "integer", "description": "How many places to get at most."},
            "searchStringsArray": {"type": "array", "description": "**REQUIRED** What to search for."},
        },
        "required": ["searchStringsArray"],
    }
}


def run(
    status: str = "RUNNING", *, message: str | None = "Crawled 7 of 30 pages", rows: int = 8, **more: Any
) -> JsonObject:
    """The structured answer of `get-actor-run`."""
    now = datetime.now(UTC)
    final = status in {"SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"}
    dataset: JsonObject = {"id": "d4TaSeT5mZ1TnYxVb", "itemCount": rows}
    store: JsonObject = {"id": "k3yVaLu3sT0r3abcd"}
    if rows:
        dataset |= {"inflatedBytes": 48_213, "fields": ["title", "url", "statusCode", "words", "summary"]}
    if final:
        store |= {"keys": ["INPUT", "OUTPUT"], "keyCount": 2}
    return {
        "runId": RUN_ID,
        "actorId": "Qx7LmPz2VtYc9aWnK",
        "actorName": "outlast/site-crawler",
        "status": status,
        **({"statusMessage": message} if message else {}),
        "startedAt": (now - timedelta(seconds=83)).isoformat(),
        **({"finishedAt": now.isoformat()} if final else {}),
        "stats": {"runTimeSecs": 83.2, "computeUnits": 0.011, "memMaxBytes": 187 * 1024 * 1024},
        "storages": {
            "datasets": {"default": dataset, "errors": {"id": "eRr0rs5mZ1TnYxVb", "itemCount": 1, "name": "errors"}},
            "keyValueStores": {"default": store},
        },
        "summary": "A run.",
        "nextStep": "Nothing.",
        **more,
    }


USAGE: JsonObject = {
    "com.apify/ActorRun": {
        "usageTotalUsd": 0.0124,
        "usageUsd": {"ACTOR_COMPUTE_UNITS": 0.0119, "DATASET_WRITES": 0.0005, "PROXY_SERPS": 0},
    }
}
TERMS: JsonObject = {"x402Version": 2, "error": "Payment required", "accepts": [{"scheme": "exact", "amount": "1"}]}
