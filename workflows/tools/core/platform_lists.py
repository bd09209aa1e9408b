"""Lists of the platform's API that tools read as they are: which page, and what is on it."""

from pydantic import Field

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.core.storage_arguments import PageArguments


class NewestFirstArguments(PageArguments):
    """Which page of a list, and from which end."""

    desc: bool = Field(default=True, description="If true, newest first; if false, oldest first.")


def entries_of(page: JsonObject) -> list[JsonObject]:
    """The entries of a page (Apify API v2, `items`)."""
    items = page.get("items")
    return [entry for entry in items if isinstance(entry, dict)] if isinstance(items, list) else []


def total_of(page: JsonObject) -> int:
    """How many entries there are on all pages."""
    total = page.get("total")
    return total if isinstance(total, int) else len(entries_of(page))
