"""Limits a caller to its own runs and storages, on an account that it shares with others. Every request to the
platform passes here, so no activity has to think of it. The caller's own are the runs that were started for it, and the
storages that those runs have made. What is refused looks as if it did not exist.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import impit
from cachetools import LRUCache
from pydantic import ValidationError
from pydantic_core import to_json

from outlast.activities.contracts import Contract, JsonObject
from outlast.activities.platform.request_marks import RunOwners

Send = Callable[[str], Awaitable[impit.Response]]
"""Sends a GET of a URL with the caller's headers."""

MAX_LISTED: Final = 1_000
"""Entries of an account's list that are looked through, also the platform's own limit of a page."""
_MAX_LOOKS = 200
_LOOKS_AT_ONCE = 10
_MAX_KNOWN = 10_000
_OK, _CREATED, _NOT_FOUND = 200, 201, 404

_RUNS = "actor-runs"
_OWNED = frozenset({_RUNS, "datasets", "key-value-stores", "request-queues"})
_FREE = frozenset({"acts", "actors", "actor-builds", "store", "users"})
"""Collections that hold nothing of other callers, apart from the runs below Actors."""
_OF_THE_ACCOUNT = frozenset({"actor-tasks", "schedules"})
"""Collections for which the platform does not show which user of an account created an object."""
_FORBIDDEN = 403
_DEFAULTS = {
    "datasets": "defaultDatasetId",
    "key-value-stores": "defaultKeyValueStoreId",
    "request-queues": "defaultRequestQueueId",
}


class _Body(Contract):
    """An answer of the platform (Apify API v2)."""

    data: JsonObject


class PlatformFence:
    """The fence around one caller. What belongs to whom never changes, so each id is looked at once."""

    def __init__(self, owners: RunOwners, caller_id: str, *, api_base_url: str) -> None:
        self._owners = owners
        self._caller_id = caller_id
        self._root = f"{api_base_url}/v2/"
        self._known: LRUCache[tuple[str, str], bool] = LRUCache(_MAX_KNOWN)

    async def answer(self, method: str, url: str, send: Send) -> impit.Response | None:
        """Return the answer in the platform's place; None when the request may be sent."""
        match self._path_of(url), method:
            case (["acts" | "actors", _, "runs"], "POST"):
                refused = None
            case (["acts" | "actors", _, "runs"], "GET"):
                refused = await self._own_of_list(_RUNS, url, send)
            case (["acts" | "actors", _, "runs", *_], _):
                refused = _missing()
            case ([collection, *_], "GET") if collection in _FREE:
                refused = None
            case (["logs", run_id], _):
                # The log of a build is at such an address, too, so anything but a run is refused here.
                refused = await self._unless_own(_RUNS, run_id, send, unknown=_missing())
            case ([collection], "GET") if collection in _OWNED:
                refused = await self._own_of_list(collection, url, send)
            case ([collection, resource_id, *_], _) if collection in _OWNED:
                refused = await self._unless_own(collection, resource_id, send)
            case ([collection, *_], _) if collection in _OF_THE_ACCOUNT:
                refused = _shared(collection)
            case _:
                refused = _missing()
        return refused

    def started(self, method: str, url: str, response: impit.Response) -> None:
        """Take note of a run that this request has started."""
        if method != "POST" or self._path_of(url)[2:] != ["runs"] or response.status_code != _CREATED:
            return
        run = _data_of(response)
        if isinstance(run_id := run.get("id"), str):
            self._known[_RUNS, run_id] = True
        for collection, field in _DEFAULTS.items():
            if isinstance(storage_id := run.get(field), str):
                self._known[collection, storage_id] = True

    def _path_of(self, url: str) -> list[str]:
        """The segments below the root; none for an address elsewhere, or one that means another than it reads."""
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        if not address.startswith(self._root):
            return []
        segments = [unquote(segment) for segment in address.removeprefix(self._root).rstrip("/").split("/")]
        return [] if any(segment in ("", ".", "..") or "\\" in segment for segment in segments) else segments

    async def _unless_own(
        self, collection: str, resource_id: str, send: Send, *, unknown: impit.Response | None = None
    ) -> impit.Response | None:
        """Return the refusal of an object of another caller; `unknown` if the platform has no such object."""
        found = await self._look(collection, resource_id, send)
        if isinstance(found, bool):
            return None if found else _missing(collection)
        return unknown if found.status_code == _NOT_FOUND else found

    async def _look(self, collection: str, resource_id: str, send: Send) -> bool | impit.Response:
        """True if the object is the caller's own; the platform's answer if it is neither a run nor a storage."""
        known = self._known.get((collection, resource_id))
        if known is not None:
            return known
        response = await send(f"{self._root}{collection}/{quote(resource_id, safe='~')}")
        if response.status_code != _OK:
            return response
        data = _data_of(response)
        if collection == _RUNS:
            own = self._owners.is_of(_user_agent(data), self._caller_id)
        else:
            made_by = await self._made_by_own_run(data, send)
            if not isinstance(made_by, bool):
                return made_by
            own = made_by
        if data.get("id") == resource_id:  # a name may belong to another storage tomorrow
            self._known[collection, resource_id] = own
        return own

    async def _made_by_own_run(self, storage: JsonObject, send: Send) -> bool | impit.Response:
        run_id = storage.get("actRunId")
        if not isinstance(run_id, str):
            return False
        found = await self._look(_RUNS, run_id, send)
        return found if isinstance(found, bool) or found.status_code != _NOT_FOUND else False

    async def _own_of_list(self, collection: str, url: str, send: Send) -> impit.Response:
        """Return the caller's own entries of a list, as the requested page."""
        query = dict(parse_qsl(urlsplit(url).query))
        offset, limit = int(query.get("offset") or 0), int(query.get("limit") or MAX_LISTED)
        everything = {**query, "offset": "0", "limit": str(MAX_LISTED)}
        response = await send(f"{url.partition('?')[0]}?{urlencode(everything)}")
        if response.status_code != _OK:
            return response
        data = _data_of(response)
        items = cast(list[JsonObject], data.get("items") or [])
        own = await (self._own_runs(items, send) if collection == _RUNS else self._own_storages(items, send))
        page = own[offset : offset + limit]
        page_fields: JsonObject = {**data, "total": len(own), "count": len(page), "offset": offset, "limit": limit}
        return _answer(_OK, {"data": {**page_fields, "items": page}})

    async def _own_runs(self, runs: Sequence[JsonObject], send: Send) -> list[JsonObject]:
        for run in runs:
            if (user_agent := _user_agent(run)) is not None:
                self._known[_RUNS, str(run["id"])] = self._owners.is_of(user_agent, self._caller_id)
        own = await self._own_ids((str(run["id"]) for run in runs), send)
        return [run for run in runs if run["id"] in own]

    async def _own_storages(self, storages: Sequence[JsonObject], send: Send) -> list[JsonObject]:
        made_by = [run_id for storage in storages if isinstance(run_id := storage.get("actRunId"), str)]
        if any((_RUNS, run_id) not in self._known for run_id in made_by):
            # One list instead of a look at each; lists may leave out who started a run.
            response = await send(f"{self._root}{_RUNS}?desc=1&limit={MAX_LISTED}")
            if response.status_code == _OK:
                listed = cast(list[JsonObject], _data_of(response).get("items") or [])
                await self._own_runs([run for run in listed if run["id"] in set(made_by)], send)
        own = await self._own_ids(made_by, send)
        return [storage for storage in storages if storage.get("actRunId") in own]

    async def _own_ids(self, run_ids: Iterable[str], send: Send) -> set[str]:
        """Return the ids of the caller's own runs among these. Of those not checked before, the first 200 count."""
        ids = tuple(dict.fromkeys(run_ids))
        unknown = [run_id for run_id in ids if (_RUNS, run_id) not in self._known][:_MAX_LOOKS]
        for start in range(0, len(unknown), _LOOKS_AT_ONCE):
            batch = unknown[start : start + _LOOKS_AT_ONCE]
            await asyncio.gather(*(self._look(_RUNS, run_id, send) for run_id in batch))
        return {run_id for run_id in ids if self._known.get((_RUNS, run_id))}


def _user_agent(run: JsonObject) -> str | None:
    meta = run.get("meta")
    found = meta.get("userAgent") if isinstance(meta, dict) else None
    return found if isinstance(found, str) else None


def _data_of(response: impit.Response) -> JsonObject:
    """The `data` of a successful answer. Raises `json.JSONDecodeError` when the answer is not of the platform."""
    try:
        return _Body.model_validate_json(response.content).data
    except ValidationError as error:
        raise json.JSONDecodeError("it has no `data` object", "", 0) from error


def _missing(collection: str = _RUNS) -> impit.Response:
    """Return the platform's answer for an id that does not exist (Apify API v2, `record-not-found`)."""
    kind = collection.removesuffix("s").replace("-", " ").capitalize()
    message = f"{kind} was not found"
    return _answer(_NOT_FOUND, {"error": {"type": "record-not-found", "message": message}})


def _shared(collection: str) -> impit.Response:
    """Return the same for everything of a collection: whether there is something is not said."""
    what = "Saved tasks" if collection == "actor-tasks" else "Schedules"
    message = f"{what} belong to the whole account, which you share with other callers of this server"
    return _answer(_FORBIDDEN, {"error": {"type": "insufficient-permissions", "message": message}})


def _answer(status: int, body: object) -> impit.Response:
    return impit.Response(status, content=to_json(body), headers={"content-type": "application/json; charset=utf-8"})
