"""Adds the title of each company's home page to a table: `python enrich_csv.py companies.csv enriched.csv`.

The table needs a column `site`. A run that was interrupted is started again in the same way: it meets its own batch,
by the table's contents, and pays for no page a second time.
"""

import csv
import hashlib
import sys
from pathlib import Path

from pydantic import JsonValue

from outlast import Client


def main(source: Path, target: Path) -> None:
    """Write the table `source` to `target`, with a column `title`."""
    content = source.read_bytes()
    companies = list(csv.DictReader(content.decode().splitlines()))
    crawls: dict[str, dict[str, JsonValue]] = {
        company["site"]: {"startUrls": [{"url": company["site"]}]} for company in companies
    }
    titles: dict[str, str] = {}
    with Client() as client:
        rows = client.map(
            "outlast/site-crawler",
            crawls,
            {"maxDepth": 0},
            concurrency=25,
            budget_usd=20,
            retries={"rate_limit": 3},
            idempotency_key=f"enrich-{hashlib.sha256(content).hexdigest()}",
        )
        for done, row in enumerate(rows, start=1):
            page = row.items[0] if row.items else None
            titles[row.key] = str(page["title"]) if isinstance(page, dict) else f"({row.status})"
            print(f"{done} of {len(crawls)}  {row.key}  {titles[row.key]}")  # noqa: T201 (how far it is)
    with target.open("w", newline="") as file:
        table = csv.DictWriter(file, [*companies[0], "title"])
        table.writeheader()
        table.writerows(company | {"title": titles[company["site"]]} for company in companies)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
