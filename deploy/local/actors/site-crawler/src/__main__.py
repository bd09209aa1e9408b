"""The site crawler's run, from its input to its last status message."""

import asyncio

from apify import Actor

from .crawl import SiteCrawl, report
from .interruption import Interruption
from .settings import InputError, Settings

SECONDS_FOR_PAGES_ON_THEIR_WAY = 1.0


async def main() -> None:
    """Run the Actor once."""
    async with Actor:
        try:
            settings = Settings.parse(await Actor.get_input())
        except InputError as error:
            await Actor.fail(status_message=f"Invalid input: {error}")
            return
        crawl = SiteCrawl(settings, _page_limit(settings))
        with Interruption() as interruption:
            await _run_reporting(crawl, interruption)
        await _finish(crawl, interruption)


def _page_limit(settings: Settings) -> int:
    """Return the requested number of pages, at most the run's `maxItems`, which limits the cost for the caller."""
    paid = Actor.configuration.max_paid_dataset_items
    return settings.max_pages if paid is None else min(settings.max_pages, paid)


async def _run_reporting(crawl: SiteCrawl, interruption: Interruption) -> None:
    """Crawl to the end, or until the run is asked to stop, with status messages."""
    reporter = asyncio.create_task(report(crawl.progress, crawl.count_queued))
    crawling = asyncio.create_task(crawl.run())
    stopping = asyncio.create_task(interruption.wait())
    try:
        await asyncio.wait({crawling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if interruption.requested:
            # Crawlee starts no new page and waits for those in progress. A page that hangs ends with the process.
            crawling.cancel()
            await asyncio.wait({crawling}, timeout=SECONDS_FOR_PAGES_ON_THEIR_WAY)
        else:
            crawling.result()
    finally:
        reporter.cancel()
        stopping.cancel()
        await asyncio.gather(reporter, stopping, return_exceptions=True)


async def _finish(crawl: SiteCrawl, interruption: Interruption) -> None:
    progress, queued = crawl.progress, await crawl.count_queued()
    await Actor.set_value("OUTPUT", progress.summary(queued))
    if interruption.requested:
        message = f"{interruption.word}. {progress.running(queued)}"
        await Actor.exit(exit_code=interruption.exit_code, status_message=message)
    elif progress.crawled == 0:
        await Actor.fail(status_message=progress.gave_nothing())
    else:
        await Actor.exit(status_message=progress.finished(queued))


if __name__ == "__main__":  # `python -m src`, with this Actor's folder as the working directory
    asyncio.run(main())
