"""Schedules over HTTP: make them, trigger them, and wait for what comes of their firings."""

from datetime import UTC, datetime
from typing import Any

import httpx

from tests.support.eventually import eventually

Body = dict[str, Any]
NEVER = {"cron": ["0 0 29 2 *"]}
"""Times that do not come while a test runs, with luck once in four years."""
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def scheduled(api: httpx.AsyncClient, schedule_id: str, headers: Any = None, **body: Any) -> Body:
    """A new schedule; unless told otherwise, it is never due by itself."""
    times = {} if "cron" in body or "every" in body else NEVER
    answer = await api.post("/v1/schedules", json={"id": schedule_id, **times, **body}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def seen(api: httpx.AsyncClient, schedule_id: str, headers: Any = None) -> Body:
    answer = await api.get(f"/v1/schedules/{schedule_id}", headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


async def triggered(api: httpx.AsyncClient, schedule_id: str, headers: Any = None) -> Body:
    """Trigger it, in another second than before: twice in a second is once."""
    recent = (await seen(api, schedule_id, headers))["recent"]
    latest = max((datetime.fromisoformat(one["scheduled_at"]) for one in recent), default=_LONG_AGO)
    await eventually(lambda: datetime.now(UTC).replace(microsecond=0) > latest)
    answer = await api.post(f"/v1/schedules/{schedule_id}/trigger", headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def firings(api: httpx.AsyncClient, schedule_id: str, count: int, headers: Any = None) -> list[Body]:
    """So many latest firings, the first one first, when all of them have ended."""

    async def all_ended() -> list[Body]:
        recent = (await seen(api, schedule_id, headers))["recent"]
        assert len(recent) >= count, recent
        assert all(one.get("status") not in (None, "starting", "working") for one in recent), recent
        return recent[:count][::-1]

    return await eventually(all_ended, interval_seconds=0.1)


async def fired(api: httpx.AsyncClient, schedule_id: str, headers: Any = None) -> Body:
    """The firing of a trigger, when it has ended."""
    before = {one["id"] for one in (await seen(api, schedule_id, headers))["recent"]}
    await triggered(api, schedule_id, headers)

    async def ended() -> Body:
        new = [one for one in (await seen(api, schedule_id, headers))["recent"] if one["id"] not in before]
        assert len(new) == 1, new
        assert new[0].get("status") not in (None, "starting", "working"), new
        return new[0]

    return await eventually(ended, interval_seconds=0.1)
