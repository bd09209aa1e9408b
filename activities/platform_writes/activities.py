"""The activity that writes an object of the platform's API. A repetition makes no second object."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import orjson
from pydantic import JsonValue
from temporalio import activity

from outlast.activities.contracts import JsonObject
from outlast.activities.heartbeat import activity_scope
from outlast.activities.json_values import loads
from outlast.activities.platform import apify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_reads.activities import unsigned, url_of_path
from outlast.activities.platform_reads.contracts import PlatformObject
from outlast.activities.platform_writes.contracts import PlatformWriteInput

_TIMEOUT = timedelta(seconds=30)
_CLOCKS_DIFFER = timedelta(minutes=1)
_CONFLICT = 409


class PlatformWriteActivities:
    """Writes on behalf of the caller that each request names, within what that caller may reach."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Write through `platform`."""
        self._platform = platform

    @activity.defn
    async def write_platform(self, request: PlatformWriteInput) -> PlatformObject:
        """The object as it is then; of a deleted one nothing."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            written = await self._written(client, request)
            for place in request.hidden:
                written = written.model_copy(update={"data": without(written.data, place.split("/"))})
            return written

    async def _written(self, client: "apify.ApifyClientAsync", request: PlatformWriteInput) -> PlatformObject:
        try:
            return await self._send(client, request)
        except apify.NotFoundError:
            if request.method != "DELETE" or not _may_have_been_done():
                raise
            return PlatformObject(data=None)
        except apify.ApifyApiError as error:
            if error.status_code != _CONFLICT or request.made is None or not _may_have_been_done():
                raise
            made = await self._made_before(client, request.made)
            if made is None:
                raise
            return made

    async def _send(self, client: "apify.ApifyClientAsync", request: PlatformWriteInput) -> PlatformObject:
        opened = self._platform.open_input(request.body, request.caller)
        for place in request.texts:
            opened = with_text_at(opened, place.split("/"))
        body = None if opened is None else orjson.dumps(opened)
        response = await client.http_client.call(
            method=request.method,
            url=url_of_path(self._platform, request.path),
            headers={"Content-Type": "application/json; charset=utf-8"} if body is not None else None,
            data=body,
            timeout=_TIMEOUT,
        )
        content = response.read()
        answer: JsonValue = loads(content) if content else None
        return PlatformObject(data=unsigned(answer.get("data")) if isinstance(answer, dict) else None)

    async def _made_before(self, client: "apify.ApifyClientAsync", path: tuple[str, ...]) -> PlatformObject | None:
        """The object of this name, when it was made since this write was asked for: by an earlier attempt."""
        response = await client.http_client.call(method="GET", url=url_of_path(self._platform, path), timeout=_TIMEOUT)
        found = cast(JsonObject, orjson.loads(response.read()))["data"]
        created = found.get("createdAt") if isinstance(found, dict) else None
        if not isinstance(created, str):
            return None
        asked = activity.info().scheduled_time - _CLOCKS_DIFFER
        return PlatformObject(data=unsigned(found)) if _moment(created) >= asked else None


def with_text_at(value: JsonValue, place: Sequence[str]) -> JsonValue:
    """`value` with the JSON text of what lies at `place`; `*` stands for every element of a list."""
    if not place:
        return orjson.dumps(value).decode()
    here, below = place[0], place[1:]
    if isinstance(value, list) and here == "*":
        return [with_text_at(entry, below) for entry in value]
    if isinstance(value, dict) and here in value:
        return {**value, here: with_text_at(value[here], below)}
    return value


def without(value: JsonValue, place: Sequence[str]) -> JsonValue:
    """`value` without what lies at `place`; `*` stands for every element of a list."""
    here, below = place[0], place[1:]
    if isinstance(value, list) and here == "*":
        return [without(entry, below) for entry in value]
    if not isinstance(value, dict) or here not in value:
        return value
    if not below:
        return {name: entry for name, entry in value.items() if name != here}
    return {**value, here: without(value[here], below)}


def _may_have_been_done() -> bool:
    """Whether an earlier attempt may have done it, and its answer was lost."""
    return activity.info().attempt > 1


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
