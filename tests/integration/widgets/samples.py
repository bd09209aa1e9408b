"""What tools answer to widgets: in the shapes of the real tools, with the contents of a real day."""

from datetime import UTC, datetime, timedelta
from typing import Any

from outlast.activities.actors.contracts import ActorCard, ActorPricing, ActorSearchPage, ActorStats
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.tools.core.actors import SearchActorsArguments, search_report
from outlast.workflows.tools.core.run_report import build_run_report

JsonObject = dict[str, Any]

SITE = "https://docs.example.com"
SITE_PAGES = [
    ("Running Actors", "/platform/actors/running", 200, 1_843, "Start an Actor from Console, the API or a schedule."),
    ("Actor tasks", "/platform/actors/running/tasks", 200, 967, "Save an input under a name and run it again."),
    ("Standby mode", "/platform/actors/running/standby", 200, 1_210, "Serve requests at once, without a cold start."),
    ("Runs and builds", "/platform/actors/running/runs-and-builds", 200, 2_004, "Origin, lifetime and state of a run."),
    ("Usage and resources", "/platform/actors/running/usage", 200, 1_377, "Memory, CPU and disk of a run, and why."),
    ("Datasets", "/platform/storage/dataset", 200, 2_651, "Rows of results, appended and read in pages."),
    ("Key-value store", "/platform/storage/key-value-store", 200, 1_108, "Records of any type under a key."),
    ("Old page", "/platform/actors/legacy", 404, 0, None),
]


def rows(count: int) -> list[JsonObject]:
    return [
        {
            "title": title,
            "url": f"https://docs.example.com{path}",
            "statusCode": status,
            "words": words,
            "summary": summary,
        }
        for title, path, status, words, summary in (SITE_PAGES * 4)[:count]
    ]


def run_report(
    status: str = "RUNNING",
    *,
    message: str | None = "Crawled 7 of 30 pages",
    items: list[JsonObject] | None = None,
    seconds: int = 83,
    cost: float | None = 0.0124,
) -> JsonObject:
    now = datetime.now(UTC)
    run = RunState(
        run_id="8fKQ2mZ1TnYxVb3Rd",
        actor_id="Qx7LmPz2VtYc9aWnK",
        actor_name="outlast/site-crawler",
        status=status,
        status_message=message,
        started_at=now - timedelta(seconds=seconds),
        finished_at=now if status in {"SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"} else None,
        dataset_id="d4TaSeT5mZ1TnYxVb",
        key_value_store_id="k3yVaLu3sT0r3abcd",
        usage_total_usd=cost,
        stats={"memCurrentBytes": 187 * 1024 * 1024},
    )
    page = None
    if items is not None:
        page = DatasetPage(
            dataset_id=run.dataset_id, items=tuple(items), offset=0, limit=20, total=len(items), fields=tuple(items[0])
        )
    return build_run_report(run, summary="A run.", next_step="The widget shows it.", page=page).structured()


def dataset_page(items: list[JsonObject], total: int | None = None) -> JsonObject:
    return {
        "datasetId": "d4TaSeT5mZ1TnYxVb",
        "items": items,
        "offset": 0,
        "itemCount": len(items),
        "totalItemCount": len(items) if total is None else total,
    }


LOG_LINES = [
    "2026-11-21T22:14:02.118Z Starting outlast/site-crawler build 0.1.1 with 512 MB of memory",
    "2026-11-21T22:14:03.402Z INFO  Crawling from 1 start URL, depth 3, up to 30 pages",
    "2026-11-21T22:14:03.951Z INFO  https://docs.example.com/platform/actors/running -> 200, 41 links",
    "2026-11-21T22:14:04.266Z WARN  https://docs.example.com/platform/actors/legacy -> 404",
    "2026-11-21T22:14:04.870Z INFO  https://docs.example.com/platform/storage/dataset -> 200, 36 links",
]


def log(text: str = "") -> JsonObject:
    return {"runId": "8fKQ2mZ1TnYxVb3Rd", "log": text or "\n".join(LOG_LINES), "lines": 5, "totalLines": 5}


CARDS = [
    ActorCard(
        actor_id="1", full_name="apify/rag-web-browser", title="RAG Web Browser", developer="Apify",
        description="Web browser for AI agents and RAG pipelines. Queries Google Search, opens the top pages and gives "
        "their content as Markdown, ready for a language model.",
        url="https://apify.com/apify/rag-web-browser", categories=("AI", "DEVELOPER_TOOLS"),
        pricing=ActorPricing(model="FREE", summary="Free; you pay for platform usage only."),
        stats=ActorStats(total_users=14_812, monthly_users=3_904, success_rate=0.987, rating=4.6, review_count=58),
    ),
    ActorCard(
        actor_id="2", full_name="compass/crawler-google-places", title="Google Maps Scraper", developer="Compass",
        description="Extract data from thousands of Google Maps places: reviews, opening hours, prices, contacts.",
        url="https://apify.com/compass/crawler-google-places", categories=("TRAVEL", "LEAD_GENERATION"),
        pricing=ActorPricing(model="PAY_PER_EVENT", summary="Pay per event (Place: $0.004; Review: $0.0005)."),
        stats=ActorStats(total_users=231_405, monthly_users=18_220, success_rate=0.994, rating=4.8, review_count=912),
    ),
    ActorCard(
        actor_id="3", full_name="outlast/site-crawler", title="Site crawler", developer="Outlast",
        description="Crawls web pages from your start URLs on, and gives title, text and Markdown of every page.",
        pricing=ActorPricing(model="FREE", summary="Free; you pay for platform usage only."),
        stats=ActorStats(total_users=12, monthly_users=4, success_rate=1.0),
    ),
    ActorCard(
        actor_id="4", full_name="jane/old-scraper", title="Old page scraper", developer="Jane",
        description="Reads pages the way it was done in 2019.", is_deprecated=True,
        url="https://apify.com/jane/old-scraper",
        pricing=ActorPricing(model="PRICE_PER_DATASET_ITEM", summary="$2.50 per 1,000 results."),
        stats=ActorStats(total_users=640, monthly_users=3, success_rate=0.41, rating=2.1, review_count=9),
    ),
]  # fmt: skip


def search_answer(cards: list[ActorCard] | None = None, *, total: int = 37, offset: int = 0) -> JsonObject:
    page = ActorSearchPage(actors=tuple(CARDS if cards is None else cards), total=total, offset=offset)
    arguments = SearchActorsArguments(keywords="web pages")
    return search_report(page, arguments, summary="Found.", next_step="Choose.").structured()


DETAILS: JsonObject = {
    "name": "outlast/site-crawler",
    "title": "Site crawler",
    "description": "Crawls web pages.",
    "isMcpServer": False,
    "inputSchema": {
        "type": "object",
        "properties": {
            "maxPages": {"type": "integer", "description": "The crawl ends when this many pages are in the dataset."},
            "startUrls": {"type": "array", "description": 'The pages to begin with, as `{"url": …}` each.'},
            "linkScope": {"type": ["string", "null"], "description": "Which links are followed."},
        },
        "required": ["startUrls"],
    },
}


def batch(status: str = "working", **changes: Any) -> JsonObject:
    """What `start-batch` and `get-batch` answer: forty items, of which a few have failed."""
    told = {
        "id": "batch-7b1c0e2f5d6a49c8a3f00b9e1d2c4f5a",
        "tool": "call-actor",
        "mode": "openai",
        "actor": "outlast/site-crawler",
        "status": status,
        "created_at": "2026-11-21T22:14:02Z",
        "total": 40,
        "completed": 9,
        "failed": 1,
        "cancelled": 0,
        "under_way": 5,
        "waiting": 25,
        "rows": 190,
        "cost_usd": 0.0421,
        "budget_usd": 20.0,
        "per_minute": 24.0,
        "seconds_left": 75.0,
        "results": "out_ru4cywpq6r6jd_2yfdqtmt6xqc3ku6byshlzklfpdyqtwd_gdas34",
        "options": {"concurrency": 5},
        **changes,
    }
    return {"batch": told}


def batch_rows(*rows: JsonObject) -> JsonObject:
    """What `get-batch-results` answers."""
    return {"items": list(rows), "nextOffset": len(rows)}
