"""Reads and writes from workflow code: objects, Actors and storages of the platform; documentation and web pages."""

from typing import Literal, cast

from pydantic import JsonValue
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.actors.activities import ActorActivities
    from outlast.activities.platform_requests.activities import (
        PlatformReadActivities,
        PlatformWriteActivities,
        RunWatchActivities,
    )
    from outlast.activities.runs.reads import RunLogActivities
    from outlast.activities.storages.datasets import DatasetActivities
    from outlast.activities.storages.listings import ListingActivities
    from outlast.activities.storages.records import RecordActivities
    from outlast.activities.web.activities import WEB_RETRY_POLICY, WebActivities

from outlast.activities.actors.contracts import ActorDetails, ActorDetailsInput, ActorSearchPage, SearchActorsInput
from outlast.activities.contracts import JsonObject
from outlast.activities.platform_requests.contracts import PlatformReadInput, PlatformWriteInput, WatchRunInput
from outlast.activities.runs.contracts import DEFAULT_LOG_BYTES, RunLog, RunLogInput
from outlast.activities.storages.contracts import (
    DatasetInfo,
    DatasetItemsInput,
    DatasetListPage,
    DatasetPage,
    DatasetSchema,
    DatasetSchemaInput,
    KeyPage,
    KeysInput,
    KeyValueStoreInfo,
    KeyValueStoreListPage,
    Record,
    RecordInput,
    RunListInput,
    RunPage,
    StorageListInput,
    StorageRef,
)
from outlast.activities.web.contracts import (
    DocsHits,
    DocsPage,
    DocsPageInput,
    DocsSearchInput,
    HtmlSkeleton,
    HtmlSkeletonInput,
)
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import QuickReader, call_activity, read_quickly

_MAX_SUMMARY_CHARS = 100
_MAX_BYTES = 1024 * 1024
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Of an object of which only a part is recorded: a saved task may hold as much input as a run."""


class PlatformReads:
    """Reads for the caller of one call. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def get(self, *path: str, **parameters: str | int | bool | None) -> JsonObject:
        """The object below `/v2` at this path; parameters that are None are left out."""
        return cast(JsonObject, await self._read_object(path, parameters))

    async def part(self, *path: str, members: tuple[str, ...]) -> JsonObject:
        """These members of the object at this path, and nothing else of it: the rest is in no history."""
        return cast(JsonObject, await self._read_object(path, {}, members=members))

    async def run(self, run_id: str, *, wait_seconds: int = 0) -> JsonObject:
        """A run: when it has ended, or after that time. Progress is readable meanwhile."""
        if not wait_seconds:
            return await self.get("actor-runs", run_id)
        request = WatchRunInput(caller=self._call.caller, run_id=run_id, wait_seconds=wait_seconds)
        summary = f"watch run {run_id}"[:_MAX_SUMMARY_CHARS]
        # The caller chooses how long that takes: it must keep no workflow task.
        watched = await call_activity(self._call, RunWatchActivities.watch_run, request, summary=summary)
        return cast(JsonObject, watched.data)

    async def _read_object(
        self,
        path: tuple[str, ...],
        parameters: dict[str, str | int | bool | None],
        *,
        members: tuple[str, ...] | None = None,
    ) -> JsonValue:
        given = {name: value for name, value in parameters.items() if value is not None}
        request = PlatformReadInput(
            caller=self._call.caller,
            path=path,
            parameters=given,
            max_bytes=_MAX_BYTES if members is None else _MAX_WHOLE_BYTES,
            members=members,
        )
        summary, method = f"read {'/'.join(path)}"[:_MAX_SUMMARY_CHARS], PlatformReadActivities.read_platform
        return (await read_quickly(self._call, method, request, summary=summary)).data


class PlatformWrites:
    """Writes for the caller of one call. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def create(
        self,
        collection: str,
        body: JsonObject,
        *,
        found_at: str,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        """A new object of a collection; `found_at` names it there, so that it is made once whatever fails.

        What lies at the places `texts` of the body is sent as its JSON text; the places `hidden` are not answered.
        """
        made = (collection, found_at)
        return await self._write("POST", (collection,), body, made=made, texts=texts, hidden=hidden)

    async def update(
        self,
        collection: str,
        reference: str,
        body: JsonObject,
        *,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        """The object with these fields changed; `texts` and `hidden` as for `create`."""
        return await self._write("PUT", (collection, reference), body, texts=texts, hidden=hidden)

    async def delete(self, collection: str, reference: str) -> None:
        """Remove the object."""
        await self._write("DELETE", (collection, reference), None)

    async def _write(
        self,
        method: Literal["POST", "PUT", "DELETE"],
        path: tuple[str, ...],
        body: JsonValue,
        *,
        made: tuple[str, ...] | None = None,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        request = PlatformWriteInput(
            caller=self._call.caller, method=method, path=path, body=body, made=made, texts=texts, hidden=hidden
        )
        summary = f"{method.lower()} {'/'.join(path)}"[:_MAX_SUMMARY_CHARS]
        written = await call_activity(self._call, PlatformWriteActivities.write_platform, request, summary=summary)
        return cast(JsonObject, written.data)


class Actors:
    """Searches Apify Store and describes Actors. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def search(self, *, keywords: str, category: str | None, offset: int, limit: int) -> ActorSearchPage:
        """One page of Actors that fit the keywords."""
        request = SearchActorsInput(
            caller=self._call.caller, keywords=keywords, category=category, offset=offset, limit=limit
        )
        summary = f"search Actors: {keywords}"[:_MAX_SUMMARY_CHARS]
        return await read_quickly(self._call, ActorActivities.search_actors, request, summary=summary)

    async def details(self, actor: str, *, max_readme_chars: int, infer_output: bool) -> ActorDetails:
        """All that is known of one Actor."""
        request = ActorDetailsInput(
            caller=self._call.caller, actor=actor, max_readme_chars=max_readme_chars, infer_output=infer_output
        )
        summary = f"look up Actor {actor}"[:_MAX_SUMMARY_CHARS]
        return await read_quickly(self._call, ActorActivities.fetch_actor_details, request, summary=summary)


class Storages:
    """Reads the caller's storages. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall, *, read: QuickReader = read_quickly) -> None:
        """Act for the caller of `call`. Each read is made with `read`."""
        self._call = call
        self._read = read

    async def items(self, request: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset."""
        method = DatasetActivities.fetch_dataset_items
        return await self._read(self._call, method, request, summary=f"read dataset {request.dataset_id}")

    async def schema(self, request: DatasetSchemaInput) -> DatasetSchema:
        """The schema of a dataset's first rows."""
        method = DatasetActivities.infer_dataset_schema
        return await self._read(
            self._call, method, request, summary=f"infer the schema of dataset {request.storage_id}"
        )

    async def log(self, run_id: str, *, lines: int, max_bytes: int = DEFAULT_LOG_BYTES) -> RunLog:
        """The last lines of a run's log, `max_bytes` of them at most."""
        request = RunLogInput(caller=self._call.caller, run_id=run_id, lines=lines, max_bytes=max_bytes)
        return await self._read(
            self._call, RunLogActivities.fetch_run_log, request, summary=f"read the log of run {run_id}"
        )

    async def runs(self, request: RunListInput) -> RunPage:
        """One page of the caller's runs."""
        return await self._read(self._call, ListingActivities.list_runs, request, summary="list runs")

    async def dataset(self, dataset_id: str) -> DatasetInfo:
        """A dataset without its items."""
        request = StorageRef(caller=self._call.caller, storage_id=dataset_id)
        return await self._read(
            self._call, ListingActivities.describe_dataset, request, summary=f"describe dataset {dataset_id}"
        )

    async def datasets(self, request: StorageListInput) -> DatasetListPage:
        """One page of the caller's datasets."""
        return await self._read(self._call, ListingActivities.list_datasets, request, summary="list datasets")

    async def key_value_store(self, store_id: str) -> KeyValueStoreInfo:
        """A key-value store without its records."""
        request = StorageRef(caller=self._call.caller, storage_id=store_id)
        method = ListingActivities.describe_key_value_store
        return await self._read(self._call, method, request, summary=f"describe key-value store {store_id}")

    async def key_value_stores(self, request: StorageListInput) -> KeyValueStoreListPage:
        """One page of the caller's key-value stores."""
        return await self._read(
            self._call, ListingActivities.list_key_value_stores, request, summary="list key-value stores"
        )

    async def keys(self, request: KeysInput) -> KeyPage:
        """One page of a store's keys."""
        return await self._read(
            self._call, ListingActivities.list_keys, request, summary=f"list keys of store {request.storage_id}"
        )

    async def record(self, request: RecordInput) -> Record:
        """One record, up to the size that may be shown."""
        return await self._read(
            self._call, RecordActivities.fetch_record, request, summary=f"read a record of store {request.storage_id}"
        )


class Web:
    """Reads documentation and web pages. Every method raises `ToolError` when that fails."""

    def __init__(self, call: ToolCall) -> None:
        """Read for `call`. The requests carry nothing of its caller."""
        self._call = call

    async def search_docs(self, request: DocsSearchInput) -> DocsHits:
        """The sections of the documentation that fit best."""
        method = WebActivities.search_docs
        return await call_activity(
            self._call, method, request, summary="search the docs", retry_policy=WEB_RETRY_POLICY
        )

    async def docs_page(self, request: DocsPageInput) -> DocsPage:
        """A page of the documentation."""
        method = WebActivities.fetch_docs_page
        return await call_activity(
            self._call, method, request, summary="fetch a docs page", retry_policy=WEB_RETRY_POLICY
        )

    async def html_skeleton(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """The bare structure of a page."""
        method = WebActivities.fetch_html_skeleton
        return await call_activity(self._call, method, request, summary="fetch a page", retry_policy=WEB_RETRY_POLICY)
