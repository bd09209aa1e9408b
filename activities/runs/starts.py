"""Starts of runs: at most once, found again after a lost response, within the limits of the Actor. A start is a local
activity in the workflow's first task. It leaves no count of attempts and no heartbeat behind when its worker dies;
docs/decisions/0024-local-starts.md describes what replaces them.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import cast

from cachetools import TTLCache

from outlast.activities import apify
from outlast.activities.actors.activities import pricing_of
from outlast.activities.contracts import Caller, JsonObject
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError
from outlast.activities.local_reads import GoesOver
from outlast.activities.platform.request_marks import OPERATION_MARKER
from outlast.activities.runs.contracts import LocalTerms, RunSpec
from outlast.activities.spending.contracts import exact_usd

LOCAL_START_AGE = timedelta(seconds=4)
"""A request leaves at most so long after its workflow task began. When that is lost, another worker begins after 10."""
LOCAL_START_TIMEOUT = timedelta(seconds=5)
"""The time to wait for the platform's answer before a normal activity looks for the run."""


class LocalStart:
    """One local attempt. It sends its request in time or not at all, and reports whether it may have been received."""

    def __init__(self, terms: LocalTerms) -> None:
        """Begin now. Raises `GoesOver` when a normal activity is to start the run, or to look for it."""
        self._terms = terms
        self._began = time.monotonic()
        self._may_have_started = terms.is_repeated
        if not terms.may_send:
            raise self._goes_over()

    def about_to_send(self) -> None:
        """Take note that the next thing is the request. Raises `GoesOver` when another worker may send it by now. Both
        clocks are read: this machine's may differ from the server's, and its monotonic one stands still in a process
        that is only created after a pause.
        """
        age = datetime.now(UTC) - self._terms.task_began
        since_begin = timedelta(seconds=time.monotonic() - self._began)
        if max(abs(age), since_begin) > LOCAL_START_AGE:
            raise self._goes_over()
        self._may_have_started = True

    async def answer_to(self, start: "asyncio.Future[apify.Run]") -> "apify.Run":
        """Return the run, also if this attempt is cancelled. Raises what refused it: the platform, or its own
        check. Otherwise `GoesOver`, in time.
        """
        if not await self._in_time(start):
            # A request that still waits for its connection must not leave later.
            start.cancel()
            raise self._goes_over()
        try:
            return start.result()
        except GoesOver:
            raise
        except (ToolFailure, SealError):
            if self._may_have_started:
                raise self._goes_over() from None
            raise
        except apify.ApifyApiError as error:
            if is_refusal(error):
                raise
            raise self._goes_over() from None
        except Exception:  # noqa: BLE001 (whatever it was, the run may have been started)
            # Never its cause: Temporal would write the unredacted text into the history.
            raise self._goes_over() from None

    async def _in_time(self, start: "asyncio.Future[apify.Run]") -> bool:
        while (left := self._began + LOCAL_START_TIMEOUT.total_seconds() - time.monotonic()) > 0:
            try:
                done, _ = await asyncio.wait({start}, timeout=left)
                return bool(done)
            except asyncio.CancelledError:
                # The platform may have the request already: read its response, so that the run can be aborted.
                continue
        return start.done()

    def _goes_over(self) -> GoesOver:
        return GoesOver("slow", may_have_acted=self._may_have_started)


def is_refusal(error: "apify.ApifyApiError") -> bool:
    """Return True if the platform's answer means that it started nothing."""
    return error.status_code < 500 and error.status_code != 408


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
        may appear in the list late. Raises what apify-client raises when the platform does not answer.
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
        """Return the ids among `run_ids` that are ours: a list may omit `meta.userAgent`, the run itself has it."""
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


_KEPT_SECONDS = 600
_KEPT_ACTORS = 1_000
_Limits = tuple[Decimal | None, Decimal | None]
"""The most that a run costs, and the price of one result."""


class ActorLimits:
    """Looks Actors up, and remembers them for ten minutes."""

    def __init__(self) -> None:
        self._known = TTLCache[tuple[str, str], _Limits](_KEPT_ACTORS, _KEPT_SECONDS)

    async def most_usd(self, client: "apify.ApifyClientAsync", caller: Caller, spec: RunSpec) -> Decimal | None:
        """Return the most that this run costs; None if the Actor sets no limit, or its settings cannot be read."""
        key = caller.id, spec.actor
        if key not in self._known:
            try:
                actor = await client.actor(spec.actor.replace("/", "~")).get()
            except apify.ApifyApiError:
                return None
            self._known[key] = _limits_of(actor) if actor is not None else (None, None)
        own, per_result = self._known[key]
        most = spec.budget.max_items
        of_results = per_result * most if per_result is not None and most is not None else None
        return min((usd for usd in (own, of_results) if usd is not None), default=None)


def _limits_of(actor: "apify.ActorResource") -> _Limits:
    """The `maxTotalChargeUsd` of its default run options, and its price per result (Apify API v2, Actor object)."""
    document = cast(JsonObject, actor.model_dump(by_alias=True, mode="json"))
    options, infos = document.get("defaultRunOptions"), document.get("pricingInfos")
    own = options.get("maxTotalChargeUsd") if isinstance(options, dict) else None
    current = infos[-1] if isinstance(infos, list) and infos else None
    price = pricing_of(current).price_per_1000_results_usd if isinstance(current, dict) else None
    return (
        exact_usd(own) if isinstance(own, int | float) and not isinstance(own, bool) and own > 0 else None,
        exact_usd(price) / 1_000 if price is not None else None,
    )
