"""Crawl: Crawlee's crawler with this Actor's scope, rows and limits, and status messages on its progress."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

from apify import Actor, Request
from crawlee import ConcurrencySettings, Glob, SkippedReason, service_locator
from crawlee.crawlers import BasicCrawlingContext, BeautifulSoupCrawler, BeautifulSoupCrawlingContext
from crawlee.errors import HttpStatusCodeError, PersistentRateLimitError
from crawlee.http_clients import ImpitHttpClient
from crawlee.request_loaders import ThrottlingRequestManager
from crawlee.storage_clients import MemoryStorageClient
from crawlee.storages import RequestQueue

from .page import FetchedPage, build_error_row, build_row, page_links
from .settings import Settings, is_web_address, without_fragment

STATUS_INTERVAL_SECONDS = 0.25
USER_AGENT = "outlast-site-crawler/0.1"
HTML_TYPES = ("text/html", "application/xhtml+xml")
FIRST_CONCURRENCY = 10
MAX_RATE_LIMITED_SECONDS = 300
"""The crawl fails if a site answers every request with 429 for this time."""
DEFAULT_PORTS = {"http": 80, "https": 443}
NOT_PAGES = frozenset(
    (
        "7z avi bin bmp bz2 css csv dmg doc docx eot epub exe flac gif gz ico iso jar jpeg jpg js json map mjs mov mp3 "
        "mp4 mpeg msi ogg otf pdf png ppt pptx rar rss svg tar tgz tif tiff ttf wasm wav webm webp whl woff woff2 xls "
        "xlsx xml xz zip"
    ).split()
)
"""Extensions of paths that never lead to a page."""


class SiteCrawl:
    """Crawl of the pages that the settings describe. Use once, inside `async with Actor`."""

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
        """Return the number of pages that are known but not yet crawled."""
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
            # The crawler does not pretend to be a browser: sites can identify it, as robots.txt assumes.
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
        """Return whether the fetched page belongs in the dataset.

        A start URL always belongs to the crawl, also after a redirect to another host, if it is HTML.
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
        """Push the row unless the limit was reached or the same page was stored for another URL."""
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
        """Describe the error for users of the Actor."""
        if isinstance(error, HttpStatusCodeError):
            return f"the server answered with status {error.status_code}"
        if isinstance(error, TimeoutError):
            return f"no answer within {self._settings.request_timeout_seconds} s"
        first_line = str(error).strip().partition("\n")[0]
        return first_line or type(error).__name__

    def _stop(self) -> None:
        if self._crawler:
            self._crawler.stop(f"{self.progress.crawled} pages were requested and crawled")


class NotHtmlError(Exception):
    """Address of a resource that is not a web page."""


@dataclass
class Progress:
    """Counts of one crawl; `disallowed` counts the pages that robots.txt forbids."""

    max_pages: int
    crawled: int = 0
    failed: int = 0
    disallowed: int = 0
    first_error: str | None = None

    @property
    def is_complete(self) -> bool:
        """True if the requested number of pages was crawled."""
        return self.crawled >= self.max_pages

    def add_failure(self, url: str, error: str) -> None:
        """Count a page that could not be crawled."""
        self.failed += 1
        self.first_error = self.first_error or f"{url}: {error}"

    def running(self, queued: int) -> str:
        """Return the status message of a running crawl."""
        return f"Crawled {self.crawled}/{self.max_pages} pages ({self.failed} failed), {queued} queued"

    def finished(self, queued: int) -> str:
        """Return the last status message of a crawl with at least one page."""
        message = f"Crawled {_pages(self.crawled)} ({self.failed} failed)"
        return f"{message}; the limit is reached, {queued} more found" if self.is_complete and queued else message

    def gave_nothing(self) -> str:
        """Return the last status message of a crawl without any page."""
        reasons = [f"{self.first_error} ({self.failed} failed)"] if self.first_error else []
        if self.disallowed:
            reasons.append(f"robots.txt disallows {_pages(self.disallowed)}; respectRobotsTxt: false ignores it")
        return f"No page could be crawled. {'; '.join(reasons) or 'Nothing was found at the start URLs'}"

    def summary(self, queued: int) -> dict[str, int]:
        """Return the run's OUTPUT record."""
        return {
            "crawled": self.crawled,
            "failed": self.failed,
            "disallowedByRobotsTxt": self.disallowed,
            "notCrawled": queued,
        }


async def report(progress: Progress, count_queued: Callable[[], Awaitable[int]]) -> None:
    """Keep the run's status message up to date until cancelled; a call is made only after a change."""
    last = ""
    while True:
        message = progress.running(await count_queued())
        if message != last:
            await Actor.set_status_message(message)
            last = message
        await asyncio.sleep(STATUS_INTERVAL_SECONDS)


def _pages(count: int) -> str:
    return f"{count} page" if count == 1 else f"{count} pages"


async def _open_queue(settings: Settings, storage: MemoryStorageClient) -> ThrottlingRequestManager[RequestQueue]:
    """Open a queue of URLs in memory; hosts of start URLs are slowed down on 429 and by robots.txt's Crawl-delay.

    The run's request queue would cost several API calls per page, which take longer than a page of a nearby site, and
    is not read afterwards. Drawback: a run that the platform migrates to another machine starts from the beginning.
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


class Scope:
    """Hosts and patterns of one crawl.

    Crawlee's `same-hostname` is not used: it ignores ports, which distinguish sites on a loopback address, and it does
    not follow the redirect of a start URL to another host (`example.com` to `www.example.com`).
    """

    def __init__(self, settings: Settings) -> None:
        self._link_scope = settings.link_scope
        self._include = [Glob(pattern) for pattern in settings.include_globs]
        self._exclude = [Glob(pattern) for pattern in settings.exclude_globs]
        self._hosts: set[tuple[str, int | None]] = set()
        for url in settings.start_urls:
            self.add_host_of(url)

    def add_host_of(self, url: str) -> None:
        """Add the host of this URL (a start URL, or its redirect target) to the hosts of the crawl."""
        self._hosts.add(_host(urlsplit(url)))

    def contains(self, url: str) -> bool:
        """Return whether the URL is on a host of the crawl."""
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            return False
        host, port = _host(parts)
        match self._link_scope:
            case "any":
                return True
            case "subdomains":
                return any(port == own_port and _is_below(host, own) for own, own_port in self._hosts)
            case _:
                return (host, port) in self._hosts

    def follows(self, url: str) -> bool:
        """Return whether a link to this URL is followed."""
        is_included = not self._include or _any_matches(self._include, url)
        is_wanted = is_included and not _any_matches(self._exclude, url)
        return is_wanted and self.contains(url) and _may_be_page(url) and is_web_address(url)


def _host(parts: SplitResult) -> tuple[str, int | None]:
    """Return host and port. All default ports are equal, because http and https of a host are one site."""
    port = parts.port
    return (parts.hostname or "").rstrip("."), None if port == DEFAULT_PORTS.get(parts.scheme) else port


def _is_below(host: str, own: str) -> bool:
    domain = own.removeprefix("www.")
    return host == domain or host.endswith(f".{domain}")


def _may_be_page(url: str) -> bool:
    name = urlsplit(url).path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() not in NOT_PAGES or "." not in name


def _any_matches(globs: Iterable[Glob], url: str) -> bool:
    return any(glob.regexp.match(url) for glob in globs)
