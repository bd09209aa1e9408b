"""Reads and writes from workflow code: objects, Actors, storages, tools of Actors that are MCP servers; web pages."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Literal, cast

from pydantic import JsonValue
from temporalio import workflow
from temporalio.workflow import ActivityCancellationType

from outlast.activities.actors.contracts import ActorDetails, ActorDetailsInput, ActorSearchPage, SearchActorsInput
from outlast.activities.contracts import JsonObject
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.platform_requests.contracts import PlatformReadInput, PlatformWriteInput, WatchRunInput
from outlast.activities.runs.contracts import DEFAULT_LOG_BYTES, RunLog, RunLogInput
from outlast.activities.storages import contracts as storages
from outlast.activities.web.contracts import (
    DocsHits,
    DocsPage,
    DocsPageInput,
    DocsSearchInput,
    HtmlSkeleton,
    HtmlSkeletonInput,
)
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import CallActivities, tool_errors
from outlast.workflows.handler_api.observability import timed

with workflow.unsafe.imports_passed_through():
    from outlast.activities.actors.activities import ActorActivities
    from outlast.activities.mcp_servers.activities import CALL_HEARTBEAT_TIMEOUT, CALL_RETRY_POLICY, McpActorActivities
    from outlast.activities.platform_requests.activities import (
        PlatformReadActivities,
        PlatformWriteActivities,
        RunWatchActivities,
    )
    from outlast.activities.runs.reads import RunLogActivities
    from outlast.activities.storages.datasets import DatasetActivities
    from outlast.activities.storages.records import ListingActivities, RecordActivities
    from outlast.activities.web.activities import WEB_RETRY_POLICY, WebActivities

_MAX_BYTES = 1024 * 1024
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Limit for an object of which only a part is recorded: a saved task may hold as much input as a run."""


class PlatformReads(CallActivities):
    """Reads objects of the platform."""

    async def get(self, *path: str, **parameters: str | int | bool | None) -> JsonObject:
        """Read the object below `/v2` at this path. Parameters that are None are left out."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await self._read_object(
            PlatformReadInput(caller=self._call.caller, path=path, parameters=given, max_bytes=_MAX_BYTES)
        )

    async def part(self, *path: str, members: tuple[str, ...]) -> JsonObject:
        """Read only these members of the object at this path. The others are in no history."""
        return await self._read_object(
            PlatformReadInput(
                caller=self._call.caller, path=path, parameters={}, max_bytes=_MAX_WHOLE_BYTES, members=members
            )
        )

    async def run(self, run_id: str, *, wait_seconds: int = 0) -> JsonObject:
        """Read a run at its end, or after that time. Its progress is readable in the meantime."""
        if not wait_seconds:
            return await self.get("actor-runs", run_id)
        request = WatchRunInput(caller=self._call.caller, run_id=run_id, wait_seconds=wait_seconds)
        # The caller chooses how long that takes, so it must not occupy a workflow task.
        return cast(JsonObject, (await self._do(RunWatchActivities.watch_run, request, f"watch run {run_id}")).data)

    async def _read_object(self, request: PlatformReadInput) -> JsonObject:
        read = await self._read(PlatformReadActivities.read_platform, request, f"read {'/'.join(request.path)}")
        return cast(JsonObject, read.data)


class PlatformWrites(CallActivities):
    """Writes objects of the platform. Values at the places `hidden` are not returned.

    Values at the places `texts` of a body are sent as their JSON text.
    """

    async def create(
        self,
        collection: str,
        body: JsonObject,
        *,
        found_at: str,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        """Create an object of a collection. Its name there, `found_at`, ensures that it is created only once."""
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
        """Change these fields of the object."""
        return await self._write("PUT", (collection, reference), body, texts=texts, hidden=hidden)

    async def delete(self, collection: str, reference: str) -> None:
        """Delete the object."""
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
        summary = f"{method.lower()} {'/'.join(path)}"
        return cast(JsonObject, (await self._do(PlatformWriteActivities.write_platform, request, summary)).data)


class Actors(CallActivities):
    """Searches Apify Store and describes Actors."""

    async def search(self, *, keywords: str, category: str | None, offset: int, limit: int) -> ActorSearchPage:
        """Read one page of Actors that match the keywords."""
        request = SearchActorsInput(
            caller=self._call.caller, keywords=keywords, category=category, offset=offset, limit=limit
        )
        return await self._read(ActorActivities.search_actors, request, f"search Actors: {keywords}")

    async def details(self, actor: str, *, max_readme_chars: int, infer_output: bool) -> ActorDetails:
        """Read the details of one Actor."""
        request = ActorDetailsInput(
            caller=self._call.caller, actor=actor, max_readme_chars=max_readme_chars, infer_output=infer_output
        )
        return await self._read(ActorActivities.fetch_actor_details, request, f"look up Actor {actor}")


class Storages(CallActivities):
    """Reads the caller's storages."""

    async def items(self, request: storages.DatasetItemsInput) -> storages.DatasetPage:
        """Read one page of a dataset."""
        return await self._read(DatasetActivities.fetch_dataset_items, request, f"read dataset {request.dataset_id}")

    async def schema(self, request: storages.DatasetSchemaInput) -> storages.DatasetSchema:
        """Infer the schema of a dataset's first rows."""
        summary = f"infer the schema of dataset {request.storage_id}"
        return await self._read(DatasetActivities.infer_dataset_schema, request, summary)

    async def log(self, run_id: str, *, lines: int, max_bytes: int = DEFAULT_LOG_BYTES) -> RunLog:
        """Read the last lines of a run's log, at most `max_bytes`."""
        request = RunLogInput(caller=self._call.caller, run_id=run_id, lines=lines, max_bytes=max_bytes)
        return await self._read(RunLogActivities.fetch_run_log, request, f"read the log of run {run_id}")

    async def runs(self, request: storages.RunListInput) -> storages.RunPage:
        """Read one page of the caller's runs."""
        return await self._read(ListingActivities.list_runs, request, "list runs")

    async def dataset(self, dataset_id: str) -> storages.DatasetInfo:
        """Read the description of a dataset."""
        request = storages.StorageRef(caller=self._call.caller, storage_id=dataset_id)
        return await self._read(ListingActivities.describe_dataset, request, f"describe dataset {dataset_id}")

    async def datasets(self, request: storages.StorageListInput) -> storages.DatasetListPage:
        """Read one page of the caller's datasets."""
        return await self._read(ListingActivities.list_datasets, request, "list datasets")

    async def key_value_store(self, store_id: str) -> storages.KeyValueStoreInfo:
        """Read the description of a key-value store."""
        request = storages.StorageRef(caller=self._call.caller, storage_id=store_id)
        summary = f"describe key-value store {store_id}"
        return await self._read(ListingActivities.describe_key_value_store, request, summary)

    async def key_value_stores(self, request: storages.StorageListInput) -> storages.KeyValueStoreListPage:
        """Read one page of the caller's key-value stores."""
        return await self._read(ListingActivities.list_key_value_stores, request, "list key-value stores")

    async def keys(self, request: storages.KeysInput) -> storages.KeyPage:
        """Read one page of a store's keys."""
        return await self._read(ListingActivities.list_keys, request, f"list keys of store {request.storage_id}")

    async def record(self, request: storages.RecordInput) -> storages.Record:
        """Read one record, up to the size that may be shown."""
        summary = f"read a record of store {request.storage_id}"
        return await self._read(RecordActivities.fetch_record, request, summary)


class Web(CallActivities):
    """Reads documentation and web pages. The requests contain nothing of the caller."""

    async def search_docs(self, request: DocsSearchInput) -> DocsHits:
        """Find the sections of the documentation that match best."""
        return await self._do(WebActivities.search_docs, request, "search the docs", WEB_RETRY_POLICY)

    async def docs_page(self, request: DocsPageInput) -> DocsPage:
        """Fetch a page of the documentation."""
        return await self._do(WebActivities.fetch_docs_page, request, "fetch a docs page", WEB_RETRY_POLICY)

    async def html_skeleton(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """Fetch the bare structure of a page."""
        return await self._do(WebActivities.fetch_html_skeleton, request, "fetch a page", WEB_RETRY_POLICY)


SAMPLING_PATIENCE = timedelta(minutes=5)
"""Longest wait for a client's model: not every client has one, and servers can do without. Users have no limit."""

AskAll = Callable[..., Awaitable[dict[str, InputAnswer]]]
"""`HandlerContext.ask_all`."""


class McpActors(CallActivities):
    """Calls tools of Actors that are MCP servers."""

    def __init__(self, call: ToolCall, ask_all: AskAll) -> None:
        super().__init__(call)
        self._ask_all = ask_all

    async def tools(self, actor: str) -> tuple[mcp.McpTool, ...]:
        """Return the usable tools of the server. Starts the Actor when it is not running."""
        return (await self.listing(actor)).tools

    async def listing(self, actor: str) -> mcp.McpToolList:
        """Return the tools of the server, with notes on unusable ones. Starts the Actor when it is not running."""
        request = mcp.ListMcpToolsInput(caller=self._call.caller, actor=actor)
        return await self._do(McpActorActivities.list_mcp_tools, request, f"list tools of {actor}")

    async def call(self, actor: str, tool: str, arguments: dict[str, JsonValue]) -> mcp.McpAnswer:
        """Call the tool at most once and return its answer unchanged.

        Questions that the server asks while its tool runs go to the caller.
        """
        request = mcp.CallMcpToolInput(
            caller=self._call.caller, actor=actor, tool=tool, arguments=arguments, caps=self._call.caps
        )
        questions = Questions(self._ask_all)
        handle_questions(questions.answer)
        try:
            with tool_errors(self._call.tool), timed("run"):
                return await self._call_tool(request)
        finally:
            handle_questions(None)
            await questions.withdraw()

    async def _call_tool(self, request: mcp.CallMcpToolInput) -> mcp.McpAnswer:
        deadline = timedelta(seconds=self._call.options.deadline_seconds)
        return await workflow.execute_activity_method(
            McpActorActivities.call_mcp_tool,
            request,
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=deadline,
            schedule_to_close_timeout=deadline,
            heartbeat_timeout=CALL_HEARTBEAT_TIMEOUT,
            retry_policy=CALL_RETRY_POLICY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"call {request.tool} of {request.actor}",
        )


def handle_questions(
    handler: Callable[[mcp.RelayedQuestion], Awaitable[mcp.RelayedAnswer]] | None,
) -> None:
    """Answer questions of the server with `handler`; None: refuse them."""
    workflow.set_update_handler(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
        mcp.RELAY_UPDATE, handler
    )


class Questions:
    """Questions of the server while its tool runs."""

    def __init__(self, ask_all: AskAll) -> None:
        self._ask_all = ask_all
        self._open: set[asyncio.Task[mcp.RelayedAnswer]] = set()

    async def answer(self, question: mcp.RelayedQuestion) -> mcp.RelayedAnswer:
        """Return the caller's answer; `cancel` if it does not come in time, or if the call ends first."""
        asking = asyncio.create_task(self._ask(question))
        self._open.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            return mcp.RelayedAnswer(action="cancel")
        finally:
            self._open.discard(asking)

    async def withdraw(self) -> None:
        """Withdraw the questions that are still open."""
        for asking in self._open:
            asking.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _ask(self, question: mcp.RelayedQuestion) -> mcp.RelayedAnswer:
        request = InputRequest(
            method=question.method,
            message=question.message,
            requested_schema=question.requested_schema,
            params=question.params,
        )
        patience = SAMPLING_PATIENCE if question.method == "sampling/createMessage" else None
        try:
            answers = await self._ask_all({question.key: request}, timeout=patience)
        except TimeoutError:
            return mcp.RelayedAnswer(action="cancel")
        answer = answers[question.key]
        # MCP has no action for a client that failed: for the Actor's server it closed the question.
        action = "cancel" if answer.action == "error" else answer.action
        return mcp.RelayedAnswer(action=action, content=answer.content)
