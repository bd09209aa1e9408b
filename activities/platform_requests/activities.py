"""Activities that read, change and watch objects of the platform's API, and return the API's own objects.

Bodies of the platform's API for a caller, and signed links to records. No history contains them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import impit
import orjson
from pydantic import JsonValue
from temporalio import activity

from outlast.activities import apify
from outlast.activities.actors.activities import ActorActivities
from outlast.activities.contracts import Caller, ErrorCategory, JsonObject
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, not_found
from outlast.activities.heartbeat import activity_scope, heartbeating
from outlast.activities.json_values import loads, text_of
from outlast.activities.pacing import Looks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.contracts import (
    PlatformObject,
    PlatformReadInput,
    PlatformWriteInput,
    WatchedRun,
    WatchRunInput,
    WatchRunResult,
)
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES
from outlast.activities.runs.reads import RunLogActivities
from outlast.activities.storages.datasets import DatasetActivities
from outlast.activities.storages.records import ListingActivities, RecordActivities

_ATTEMPT_TIMEOUT = timedelta(seconds=30)
_NO_SEGMENTS = frozenset({"", ".", ".."})
"""Path segments that change the address."""
_MAX_PARAMETER_CHARS = 1_000
_SIGNING_KEYS = frozenset({"urlSigningSecretKey"})
_SIGNATURES = frozenset({"signature", "token"})


class PlatformReadActivities:
    """Reads on behalf of the caller that each request names, and reaches what that caller may."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def read_platform(self, request: PlatformReadInput) -> PlatformObject:
        """Return the object at a path. Fails with `not_found` when the caller has none there."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            _check_parameters(request)
            response = await client.http_client.call(
                method="GET",
                url=url_of_path(self._platform, request.path),
                params=cast(dict[str, object], request.parameters) or None,
                timeout=_ATTEMPT_TIMEOUT,
            )
            body = response.read()
            if len(body) > request.max_bytes:
                message = f"The platform's answer about {'/'.join(request.path)} has {len(body)} bytes; "
                message += f"the limit is {request.max_bytes}."
                raise ToolFailure.of(ErrorCategory.VALIDATION, message, "Ask for fewer entries.")
            answer: JsonValue = loads(body)
            data = unsigned(answer.get("data")) if isinstance(answer, dict) else answer
            if request.members is not None and isinstance(data, dict):
                data = {name: data[name] for name in request.members if name in data}
            return PlatformObject(data=data)


def url_of_path(platform: ApifyPlatform, path: Sequence[str]) -> str:
    """Return the address of a path below `/v2`. Raises `ToolFailure` for an id that no server takes in an address."""
    collection, *rest = path
    for segment in rest:
        platform.url_of(collection, segment)
        if segment in _NO_SEGMENTS:
            raise not_found(f"There is no {segment!r} among the {collection}.")
    tail = "".join(f"/{quote(segment.replace('/', '~'), safe='~')}" for segment in rest)
    return f"{platform.api_base_url}/v2/{collection}{tail}"


def _check_parameters(request: PlatformReadInput) -> None:
    """Raise `ToolFailure` for a parameter that is too long for an address."""
    for name, value in request.parameters.items():
        if isinstance(value, str) and len(value) > _MAX_PARAMETER_CHARS:
            message = f"{name} has {len(value)} characters; the limit is {_MAX_PARAMETER_CHARS}."
            raise ToolFailure.of(ErrorCategory.VALIDATION, message, "Write it shorter.")


def unsigned(value: JsonValue) -> JsonValue:
    """`value` without what lets every reader of a history read a storage: keys for signing, signatures in addresses."""
    if isinstance(value, dict):
        return {name: unsigned(entry) for name, entry in value.items() if name not in _SIGNING_KEYS}
    if isinstance(value, list):
        return [unsigned(entry) for entry in value]
    return _without_signature(value) if isinstance(value, str) and value.startswith(("http://", "https://")) else value


def _without_signature(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    if not parts.query:
        return address
    given = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in given if name not in _SIGNATURES]
    return address if len(kept) == len(given) else urlunsplit(parts._replace(query=urlencode(kept)))


_TIMEOUT = timedelta(seconds=30)
_CLOCKS_DIFFER = timedelta(minutes=1)
_CONFLICT = 409


class PlatformWriteActivities:
    """Writes on behalf of the caller that each request names, within what that caller may reach."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def write_platform(self, request: PlatformWriteInput) -> PlatformObject:
        """Return the object as it is then; of a deleted one nothing."""
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
        """Return the object of this name if it was made since this write was requested: by an earlier attempt."""
        response = await client.http_client.call(method="GET", url=url_of_path(self._platform, path), timeout=_TIMEOUT)
        found = cast(JsonObject, orjson.loads(response.read()))["data"]
        created = found.get("createdAt") if isinstance(found, dict) else None
        if not isinstance(created, str):
            return None
        asked = activity.info().scheduled_time - _CLOCKS_DIFFER
        return PlatformObject(data=unsigned(found)) if _moment(created) >= asked else None


def with_text_at(value: JsonValue, place: Sequence[str]) -> JsonValue:
    """Return `value` with the value at `place` as JSON text; `*` matches every element of a list."""
    if not place:
        return orjson.dumps(value).decode()
    here, below = place[0], place[1:]
    if isinstance(value, list) and here == "*":
        return [with_text_at(entry, below) for entry in value]
    if isinstance(value, dict) and here in value:
        return {**value, here: with_text_at(value[here], below)}
    return value


def without(value: JsonValue, place: Sequence[str]) -> JsonValue:
    """Return `value` without the value at `place`; `*` matches every element of a list."""
    here, below = place[0], place[1:]
    if isinstance(value, list) and here == "*":
        return [without(entry, below) for entry in value]
    if not isinstance(value, dict) or here not in value:
        return value
    if not below:
        return {name: entry for name, entry in value.items() if name != here}
    return {**value, here: without(value[here], below)}


def _may_have_been_done() -> bool:
    """Return an earlier attempt may have done it, and its answer was lost."""
    return activity.info().attempt > 1


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_LOOK_EVERY = timedelta(seconds=3)
"""Longest wait of one request, while few wait. The platform answers at once when the run ends; a status message may be
this old."""
_LOOKS_PER_SECOND = 50


class RunWatchActivities:
    """Watches runs that their callers name; what they may not reach looks as if it did not exist."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform
        self._looks = Looks(_LOOKS_PER_SECOND)

    @activity.defn
    async def watch_run(self, request: WatchRunInput) -> WatchRunResult:
        """The run when it has ended, or after the time to wait. Fails with `not_found` if the caller cannot see the
        run. The heartbeat details are a `WatchedRun`: progress is readable and adds nothing to the history. Another
        attempt waits for what is left of the time.
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
                        heartbeats.send(watched)  # Temporal's SDK holds back those that follow too soon
                        if _is_final(run) or _left(until) <= timedelta(0):
                            return WatchRunResult(data=run, watched=watched)
                        every = timedelta(seconds=self._looks.pause_seconds(_LOOK_EVERY.total_seconds()))
                        run = await self._look(client, request.run_id, wait=min(_left(until), every))

    async def _look(
        self, client: "apify.ApifyClientAsync", run_id: str, *, wait: timedelta = timedelta(0)
    ) -> JsonObject:
        """Return the run, when it has ended or after `wait` (Apify API v2, `waitForFinish`, whole seconds)."""
        seconds = max(round(wait.total_seconds()), 1) if wait else 0
        response = await client.http_client.call(
            method="GET",
            url=url_of_path(self._platform, ("actor-runs", run_id)),
            params={"waitForFinish": seconds} if seconds else None,
            timeout=timedelta(seconds=seconds) + _ATTEMPT_TIMEOUT,
        )
        return cast(JsonObject, unsigned(cast("dict[str, JsonValue]", orjson.loads(response.read()))["data"]))

    async def _actor_name(self, client: "apify.ApifyClientAsync", run: JsonObject) -> str | None:
        """Return the Actor as `user/name`; None when it cannot be looked up."""
        try:
            url = url_of_path(self._platform, ("acts", str(run.get("actId"))))
            response = await client.http_client.call(method="GET", url=url, timeout=_ATTEMPT_TIMEOUT)
            actor: Any = orjson.loads(response.read())["data"]
        except apify.ApifyApiError:
            return None
        return f"{actor['username']}/{actor['name']}"


def _watched(run: JsonObject, actor: str | None) -> WatchedRun:
    """Return the state of the run. The last status message of a running run does not describe its end."""
    message = run.get("statusMessage")
    counts = not _is_final(run) or run.get("isStatusMessageTerminal") is True
    return WatchedRun(
        run_id=str(run.get("id")),
        actor_name=actor,
        run_status=str(run.get("status")),
        run_message=str(message) if message and counts else None,
    )


def _is_final(run: JsonObject) -> bool:
    return run.get("status") in FINAL_RUN_STATUSES


def _left(until: datetime) -> timedelta:
    return until - datetime.now(UTC)


def platform_reads(platform: ApifyPlatform) -> Sequence[Callable[..., Any]]:
    """Methods that change nothing and cost nothing."""
    actors, datasets = ActorActivities(platform), DatasetActivities(platform)
    listings, records = ListingActivities(platform), RecordActivities(platform)
    return (
        datasets.fetch_dataset_items,
        datasets.infer_dataset_schema,
        RunLogActivities(platform).fetch_run_log,
        actors.search_actors,
        actors.fetch_actor_details,
        listings.list_runs,
        listings.describe_dataset,
        listings.list_datasets,
        listings.describe_key_value_store,
        listings.list_key_value_stores,
        listings.list_keys,
        records.fetch_record,
        PlatformReadActivities(platform).read_platform,
    )


@dataclass(frozen=True, slots=True)
class PlatformBody:
    """An answer of the platform. `data` is None if it is larger than the requested maximum."""

    content_type: str | None
    data: bytes | None


class PlatformRefusal(Exception):
    """The platform has refused a request, with `status`, or has not answered (None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class PlatformBodies:
    """Reads bodies for callers, who reach what they may."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @property
    def api_base_url(self) -> str:
        """The platform's root, without `/v2`."""
        return self._platform.api_base_url

    async def read(
        self, caller: Caller, path: tuple[str, ...], parameters: Mapping[str, str], *, max_bytes: int, is_object: bool
    ) -> PlatformBody:
        """`GET` of a path below `/v2`; of an object of the API without keys for signing. Raises `PlatformRefusal`. No
        more than `max_bytes` are read, and nothing is repeated.
        """
        try:
            response = await self._platform.client(caller).http_client.call(
                method="GET",
                url=url_of_path(self._platform, path),
                params=cast(dict[str, object], dict(parameters)) or None,
                timeout=_TIMEOUT,
                stream=True,
            )
            try:
                content_type, data = response.headers.get("content-type"), await _read_body(response, max_bytes)
            finally:
                await response.aclose()
        except ToolFailure as error:
            status = 401 if error.envelope.category is ErrorCategory.AUTHENTICATION else 404
            raise PlatformRefusal(error.envelope.message, status) from error
        except (impit.HTTPError, OSError, TimeoutError) as error:
            raise PlatformRefusal(f"no answer ({type(error).__name__})") from error
        except apify.ApifyApiError as error:
            raise PlatformRefusal(error.message or "no reason given", error.status_code) from error
        return PlatformBody(content_type, _unsigned(data) if is_object else data)


async def _read_body(response: "apify.HttpResponse", max_bytes: int) -> bytes | None:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > max_bytes:
            return None
    return bytes(data)


def _unsigned(data: bytes | None) -> bytes | None:
    try:
        return data and text_of(unsigned(cast(JsonValue, loads(data))))
    except ValueError:
        return data


log = logging.getLogger("outlast.api")

_STORES, _RECORDS = "key-value-stores", "records"


class RecordLinks:
    """Signs the addresses of records for callers who reach them."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    async def signed(self, caller: Caller, uri: str) -> str:
        """The address of a record with its signature. Any other address is returned as it is, and so is that of a
        record for which the platform gives no signature. A payment that came with a call is for the call alone: nothing
        is requested from the platform with it.
        """
        place = self._record_at(uri)
        if place is None or caller.payment is not None:
            return uri
        store, key = place
        try:
            link = await self._platform.client(caller).key_value_store(store).get_record_public_url(key)
        except Exception as error:  # noqa: BLE001 (the address is right without a signature, too)
            log.warning("A link to a record is not signed: %s", type(error).__name__)
            return uri
        signature = parse_qs(urlsplit(link).query).get("signature")
        return f"{uri}?{urlencode({'signature': signature[0]})}" if signature else uri

    def _record_at(self, uri: str) -> tuple[str, str] | None:
        """Return the store and the key of a record's address; None for any other."""
        root = f"{self._platform.api_base_url}/v2/{_STORES}/"
        store, *rest = uri.removeprefix(root).split("/", 2)
        if not uri.startswith(root) or "?" in uri or len(rest) != 2 or rest[0] != _RECORDS:
            return None
        return unquote(store), unquote(rest[1])
