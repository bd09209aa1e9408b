"""The activity that reads the log of a run, as a stream, so that memory use does not grow with the log."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

from outlast.activities.failures.not_found import explain_not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.platform import apify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import RunLog, RunLogInput
from outlast.activities.storages.rows import lines_of
from outlast.activities.unicode_text import valid_text

_LOG_TIMEOUT = timedelta(seconds=50)


class RunLogActivities:
    """Reads the logs of a caller's runs."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def fetch_run_log(self, request: RunLogInput) -> RunLog:
        """The last lines of a run's log, at most `max_bytes`. Fails with `not_found` for an unknown run."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            try:
                async with self._log_so_far(client, request.run_id) as response:
                    tail, total = await _tail(response, request.lines)
            except apify.NotFoundError:
                raise await explain_not_found(client, "run", request.run_id) from None
            text = valid_text(b"\n".join(tail)[-request.max_bytes :].decode(errors="replace"))
            return RunLog(run_id=request.run_id, text=text, lines=text.count("\n") + bool(text), total_lines=total)

    @asynccontextmanager
    async def _log_so_far(self, client: "apify.ApifyClientAsync", run_id: str) -> AsyncGenerator["apify.HttpResponse"]:
        """The log as a stream. apify-client's own `stream` makes the platform send until the run has ended."""
        url = self._platform.url_of("logs", run_id)
        response = await client.http_client.call(method="GET", url=url, stream=True, timeout=_LOG_TIMEOUT)
        try:
            yield response
        finally:
            await response.aclose()


async def _tail(response: "apify.HttpResponse", lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in lines_of(response):
        tail.append(line)
        total += 1
    return tail, total
