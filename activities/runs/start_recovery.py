"""Finds a run that was started although the response to its start was lost.

The platform's start call has no idempotency key. Each start names its operation in the User-Agent, which the platform
stores as `run.meta.userAgent` (Apify API v2, run object). See docs/decisions/0002-one-paid-run.md.
"""

import asyncio
import time
from datetime import datetime, timedelta

from outlast.activities.platform import apify
from outlast.activities.platform.request_marks import OPERATION_MARKER

_PAGE = 100
_DETAILS_AT_ONCE = 10
_CLOCK_SKEW = timedelta(minutes=2)
_PAUSE_SECONDS = 0.5


class StartedRuns:
    """Finds the runs of one operation among an Actor's recent runs."""

    def __init__(
        self,
        client: "apify.ApifyClientAsync",
        *,
        actor: str,
        operation_id: str,
        since: datetime,
        until: datetime | None = None,
    ) -> None:
        """Search the runs of `actor` that started after `since` (and before `until`), with an allowance for clocks that
        differ.
        """
        self._client = client
        self._actor = actor
        self._marker = f"{OPERATION_MARKER}{operation_id}"
        self._since = since - _CLOCK_SKEW
        self._until = None if until is None else until + _CLOCK_SKEW
        self._foreign: set[str] = set()

    async def find(self, *, settle: timedelta) -> list[str]:
        """The ids of the operation's runs, oldest first. While there is none, search again for the time `settle`: a run
        may appear in the list late.

        Raises what apify-client raises when the platform does not answer.
        """
        deadline = time.monotonic() + settle.total_seconds()
        while True:
            found = await self._search()
            if found or time.monotonic() >= deadline:
                return found
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _search(self) -> list[str]:
        found: list[str] = []
        unmarked: list[str] = []
        offset = 0
        while True:
            runs = self._client.actor(self._actor).runs()
            page = await runs.list(
                started_after=self._since, started_before=self._until, desc=True, limit=_PAGE, offset=offset
            )
            for run in page.items:
                if run.meta.user_agent is None:
                    unmarked.append(run.id)
                elif self._is_ours(run.meta.user_agent):
                    found.append(run.id)
            offset += len(page.items)
            if not page.items or offset >= page.total:
                break
        found += await self._search_details([run_id for run_id in unmarked if run_id not in self._foreign])
        # Pages shift while newer runs arrive, so a run can be listed twice.
        return list(dict.fromkeys(found[::-1]))

    async def _search_details(self, run_ids: list[str]) -> list[str]:
        """The ids among `run_ids` that are ours: a list may omit `meta.userAgent`, the run itself has it."""
        found: list[str] = []
        for start in range(0, len(run_ids), _DETAILS_AT_ONCE):
            batch = run_ids[start : start + _DETAILS_AT_ONCE]
            runs = await asyncio.gather(*(self._client.run(run_id).get() for run_id in batch))
            for run_id, run in zip(batch, runs, strict=True):
                if run is not None and self._is_ours(run.meta.user_agent or ""):
                    found.append(run_id)
                elif run is not None:
                    self._foreign.add(run_id)
        return found

    def _is_ours(self, user_agent: str) -> bool:
        return self._marker in user_agent.replace(";", " ").split()
