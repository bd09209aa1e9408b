"""Reads runs as activities need them: with a long poll, and as a `RunState`."""

from datetime import timedelta

from outlast.activities.platform import apify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import RunState
from outlast.activities.runs.mapping import run_state


class RunReads:
    """Reads single runs. Raises what apify-client raises."""

    def __init__(self, platform: ApifyPlatform, *, console_url: str | None, request_timeout: timedelta) -> None:
        """`console_url` is the root of the web console that shows runs, if any."""
        self._platform = platform
        self._console_url = console_url
        self._request_timeout = request_timeout

    async def run(
        self, client: "apify.ApifyClientAsync", run_id: str, *, wait: timedelta = timedelta(0)
    ) -> "apify.Run":
        """The run, when it has ended or after `wait` (Apify API v2, `waitForFinish`, whole seconds)."""
        seconds = round(wait.total_seconds())
        response = await client.http_client.call(
            method="GET",
            url=self._platform.url_of("actor-runs", run_id),
            params={"waitForFinish": seconds} if seconds else None,
            timeout=timedelta(seconds=seconds) + self._request_timeout / 2,
        )
        return apify.Run.model_validate(response.json()["data"])

    def state(self, run: "apify.Run", *, adopted: bool = False) -> RunState:
        """The run in our form."""
        return run_state(run, console_url=self._console_url, adopted=adopted)
