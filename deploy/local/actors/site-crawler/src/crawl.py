"""One crawl: Crawlee's crawler with this Actor's scope, rows and limits."""

import asyncio
from datetime import timedelta

from apify import Actor, Request
from crawlee import ConcurrencySettings, SkippedReason, service_locator
from crawlee.crawlers import BasicCrawlingContext, BeautifulSoupCrawler, BeautifulSoupCrawlingContext
from crawlee.errors import HttpStatusCodeError, PersistentRateLimitError
from crawlee.http_clients import ImpitHttpClient
from crawlee.request_loaders import ThrottlingRequestManager
from crawlee.storage_clients import MemoryStorageClient
from crawlee.storages import RequestQueue

from .addresses import without_fragment
from .page import FetchedPage, build_error_row, build_row, page_links
from .progress import Progress
from .scope import Scope
from .settings import Settings

USER_AGENT = "outlast-site-crawler/0.1"
HTML_TYPES = ("text/html", "application/xhtml+xml")
FIRST_CONCURRENCY = 10
MAX_RATE_LIMITED_SECONDS = 300
"""How long a site may answer every request with 429 before the crawl gives up."""


class NotHtmlError(Exception):
    """The address holds something other than a web page."""


class SiteCrawl:
    """A crawl of the pages that the settings describe. Use once, inside `async with Actor`."""

    def __init__(self, settings: Settings, max_pages: int) -> None:
        self.progress = Progress(max_pages)
        self._settings = settings
        self._scope = Scope(settings)
        self._queue: ThrottlingRequestManager[RequestQueue] | None = None
        self._crawler: BeautifulSoupCrawler | None = None
        self._loaded_urls: set[str] = set()

    async def run(self) -> None:
        """Crawl until no pages are left or the limit is reached. Cancelling this coroutine stops the crawl."""
        storage = MemoryStorageClient()
        self._queue = await _open_queue(self._settings, storage)
        self._crawler = self._build_crawler(self._queue, storage)
        try:
            await self._crawler.run([Request.from_url(url) for url in self._settings.start_urls])
        except PersistentRateLimitError as error:
            Actor.log.warning(f"Rate-limited for too long: {error}")
            self.progress.add_failure("rate limit", str(error))

    async def count_queued(self) -> int:
        """The number of pages that are known but not yet crawled."""
        if self._queue is None:
            return 0
        return await self._queue.get_total_count() - await self._queue.get_handled_count()

    def _build_crawler(
        self, queue: ThrottlingRequestManager[RequestQueue], storage: MemoryStorageClient
    ) -> BeautifulSoupCrawler:
        settings = self._settings
        crawler = BeautifulSoupCrawler(
            request_manager=queue,
            storage_client=storage,
            # The crawler does not pose as a browser: sites may know who reads them, as robots.txt assumes.
            http_client=ImpitHttpClient(browser=None, headers={"User-Agent": USER_AGENT}),
            request_handler=self._handle_page,
            navigation_timeout=timedelta(seconds=settings.request_timeout_seconds),
            concurrency_settings=ConcurrencySettings(
                max_concurrency=settings.max_concurrency,
                desired_concurrency=min(settings.max_concurrency, FIRST_CONCURRENCY),
            ),
            max_request_retries=settings.max_retries,
            max_crawl_depth=settings.max_depth,
            respect_robots_txt_file=settings.respect_robots_txt,
            # 401 and 403 are final: retrying with ten more sessions would not change them.
            use_session_pool=False,
            retry_on_blocked=False,
            statistics_log_format="inline",
        )
        crawler.failed_request_handler(self._handle_failure)
        crawler.on_skipped_request(self._handle_skipped)
        return crawler

    async def _handle_page(self, context: BeautifulSoupCrawlingContext) -> None:
        page = _fetched_page(context)
        if not self._is_wanted(page, context):
            return
        links = await asyncio.to_thread(lambda: list(page_links(page.loaded_url, context.soup)))
        row = await asyncio.to_thread(build_row, page, context.soup, links, self._settings.main_content_only)
        await self._store(page, row)
        if self.progress.is_complete:
            self._stop()
        elif page.depth < self._settings.max_depth:
            await context.add_requests([link for link in links if self._scope.follows(link)])

    def _is_wanted(self, page: FetchedPage, context: BeautifulSoupCrawlingContext) -> bool:
        """Whether the fetched page belongs in the dataset.

        A start URL always belongs to the crawl, also after a redirect to another host, provided that it is HTML.
        """
        content_type = context.http_response.headers.get("content-type", "text/html")
        is_html = content_type.lower().startswith(HTML_TYPES)
        if page.depth == 0:
            if not is_html:
                context.request.no_retry = True
                raise NotHtmlError(f"not a web page but {content_type}")
            self._scope.add_host_of(page.loaded_url)
        elif not is_html or not self._scope.contains(page.loaded_url):
            return False
        return not self.progress.is_complete and page.loaded_url not in self._loaded_urls

    async def _store(self, page: FetchedPage, row: dict[str, object]) -> None:
        """Push the row unless the limit was reached or another URL led to the same page meanwhile."""
        if self.progress.is_complete or page.loaded_url in self._loaded_urls:
            return
        self._loaded_urls.add(page.loaded_url)
        self.progress.crawled += 1
        try:
            await Actor.push_data(row)  # pyright: ignore[reportUnknownMemberType]
        except BaseException:
            self._loaded_urls.discard(page.loaded_url)
            self.progress.crawled -= 1
            raise

    async def _handle_failure(
        self, context: BasicCrawlingContext | BeautifulSoupCrawlingContext, error: Exception
    ) -> None:
        request = context.request
        status_code = error.status_code if isinstance(error, HttpStatusCodeError) else None
        message = self._described(error)
        self.progress.add_failure(request.url, message)
        if self._settings.save_failed_pages:
            row = build_error_row(request.url, request.crawl_depth, status_code, message)
            await Actor.push_data(row)  # pyright: ignore[reportUnknownMemberType]

    async def _handle_skipped(self, _url: str, _reason: SkippedReason) -> None:
        self.progress.disallowed += 1

    def _described(self, error: Exception) -> str:
        """A description of the error for users of the Actor."""
        if isinstance(error, HttpStatusCodeError):
            return f"the server answered with status {error.status_code}"
        if isinstance(error, TimeoutError):
            return f"no answer within {self._settings.request_timeout_seconds} s"
        first_line = str(error).strip().partition("\n")[0]
        return first_line or type(error).__name__

    def _stop(self) -> None:
        if self._crawler:
            self._crawler.stop(f"{self.progress.crawled} pages were asked for and crawled")


async def _open_queue(settings: Settings, storage: MemoryStorageClient) -> ThrottlingRequestManager[RequestQueue]:
    """The queue of URLs, in memory; hosts of start URLs are slowed down on 429 and by robots.txt's Crawl-delay.

    The run's own request queue would cost several API calls per page, more time than a page of a nearby site takes, and
    is not read afterwards. The drawback: a run that the platform migrates to another machine starts from the beginning.
    """
    return ThrottlingRequestManager(
        await RequestQueue.open(storage_client=storage),
        domains=settings.start_urls,
        request_manager_opener=RequestQueue.open,
        service_locator=type(service_locator)(storage_client=storage),
        max_domain_stall=timedelta(seconds=MAX_RATE_LIMITED_SECONDS),
    )


def _fetched_page(context: BeautifulSoupCrawlingContext) -> FetchedPage:
    request = context.request
    return FetchedPage(
        url=request.url,
        loaded_url=without_fragment(request.loaded_url or request.url),
        depth=request.crawl_depth,
        status_code=context.http_response.status_code,
    )
