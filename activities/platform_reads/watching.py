"""The activity that waits for a run on behalf of a caller, and says meanwhile how it stands."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson
from pydantic import JsonValue
from temporalio import activity

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import Heartbeats, heartbeating
from outlast.activities.pacing import Looks
from outlast.activities.platform import apify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_reads.activities import unsigned, url_of_path
from outlast.activities.platform_reads.contracts import WatchedRun, WatchRunInput, WatchRunResult
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES

_LOOK_EVERY = timedelta(seconds=3)
"""Longest wait of one request, while few wait. The platform answers at once when the run ends; a status message may be
this old."""
_LOOKS_PER_SECOND = 50
_ATTEMPT_TIMEOUT = timedelta(seconds=30)


class RunWatchActivities:
    """Watches runs that their callers name; what they may not reach looks as if it did not exist."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Ask `platform`."""
        self._platform = platform
        self._looks = Looks(_LOOKS_PER_SECOND)

    @activity.defn
    async def watch_run(self, request: WatchRunInput) -> WatchRunResult:
        """The run when it has ended, or after the time to wait. Fails with `not_found` when the caller has no such run.

        The heartbeat details are a `WatchedRun`: progress is readable and adds nothing to the history. Another attempt
        waits for what is left of the time.
        """
        with as_activity_failure():
            client = self._platform.client(request.caller)
            until = activity.info().scheduled_time + timedelta(seconds=request.wait_seconds)
            async with heartbeating() as heartbeats:
                run = await self._look(client, request.run_id)
                if _is_final(run) or _left(until) <= timedelta(0):
                    return WatchRunResult(data=run)
                actor = await self._actor_name(client, run)
                with self._looks.follower():
                    while True:
                        watched = _watched(run, actor)
                        _tell(heartbeats, watched)
                        if _is_final(run) or _left(until) <= timedelta(0):
                            return WatchRunResult(data=run, watched=watched)
                        every = timedelta(seconds=self._looks.pause_seconds(_LOOK_EVERY.total_seconds()))
                        run = await self._look(client, request.run_id, wait=min(_left(until), every))

    async def _look(
        self, client: "apify.ApifyClientAsync", run_id: str, *, wait: timedelta = timedelta(0)
    ) -> JsonObject:
        """The run, when it has ended or after `wait` (Apify API v2, `waitForFinish`, whole seconds)."""
        seconds = max(round(wait.total_seconds()), 1) if wait else 0
        response = await client.http_client.call(
            method="GET",
            url=url_of_path(self._platform, ("actor-runs", run_id)),
            params={"waitForFinish": seconds} if seconds else None,
            timeout=timedelta(seconds=seconds) + _ATTEMPT_TIMEOUT,
        )
        return cast(JsonObject, unsigned(cast("dict[str, JsonValue]", orjson.loads(response.read()))["data"]))

    async def _actor_name(self, client: "apify.ApifyClientAsync", run: JsonObject) -> str | None:
        """The Actor as `user/name`; None when it cannot be looked up."""
        try:
            url = url_of_path(self._platform, ("acts", str(run.get("actId"))))
            response = await client.http_client.call(method="GET", url=url, timeout=_ATTEMPT_TIMEOUT)
            actor: Any = orjson.loads(response.read())["data"]
        except apify.ApifyApiError:
            return None
        return f"{actor['username']}/{actor['name']}"


def _watched(run: JsonObject, actor: str | None) -> WatchedRun:
    """How the run stands. What it last said while it ran says nothing of its end."""
    message = run.get("statusMessage")
    counts = not _is_final(run) or run.get("isStatusMessageTerminal") is True
    return WatchedRun(
        run_id=str(run.get("id")),
        actor_name=actor,
        run_status=str(run.get("status")),
        run_message=str(message) if message and counts else None,
    )


def _tell(heartbeats: Heartbeats, watched: WatchedRun) -> None:
    """Send a heartbeat at once; Temporal's SDK holds back those that follow too soon."""
    heartbeats.send(watched)


def _is_final(run: JsonObject) -> bool:
    return run.get("status") in FINAL_RUN_STATUSES


def _left(until: datetime) -> timedelta:
    return until - datetime.now(UTC)
