"""Progress of the crawl: counts, and the status message made of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apify import Actor

STATUS_INTERVAL_SECONDS = 0.25


@dataclass
class Progress:
    """Counts of one crawl; `disallowed` are the pages that robots.txt forbids."""

    max_pages: int
    crawled: int = 0
    failed: int = 0
    disallowed: int = 0
    first_error: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the requested number of pages was crawled."""
        return self.crawled >= self.max_pages

    def add_failure(self, url: str, error: str) -> None:
        """Count a page that could not be crawled."""
        self.failed += 1
        self.first_error = self.first_error or f"{url}: {error}"

    def running(self, queued: int) -> str:
        """The status message of a running crawl."""
        return f"Crawled {self.crawled}/{self.max_pages} pages ({self.failed} failed), {queued} queued"

    def finished(self, queued: int) -> str:
        """The last status message of a crawl with at least one page."""
        message = f"Crawled {_pages(self.crawled)} ({self.failed} failed)"
        return f"{message}; the limit is reached, {queued} more found" if self.is_complete and queued else message

    def gave_nothing(self) -> str:
        """The last status message of a crawl without any page."""
        reasons = [f"{self.first_error} ({self.failed} failed)"] if self.first_error else []
        if self.disallowed:
            reasons.append(f"robots.txt disallows {_pages(self.disallowed)}; respectRobotsTxt: false ignores it")
        return f"No page could be crawled. {'; '.join(reasons) or 'Nothing was found at the start URLs'}"

    def summary(self, queued: int) -> dict[str, int]:
        """The run's OUTPUT record."""
        return {
            "crawled": self.crawled,
            "failed": self.failed,
            "disallowedByRobotsTxt": self.disallowed,
            "notCrawled": queued,
        }


async def report(progress: Progress, count_queued: Callable[[], Awaitable[int]]) -> None:
    """Keep the run's status message up to date until cancelled; a call is made only when something has changed."""
    last = ""
    while True:
        message = progress.running(await count_queued())
        if message != last:
            await Actor.set_status_message(message)
            last = message
        await asyncio.sleep(STATUS_INTERVAL_SECONDS)


def _pages(count: int) -> str:
    return f"{count} page" if count == 1 else f"{count} pages"
