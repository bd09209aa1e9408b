"""`BatchStarter`: starts the workflows of batches, and those of their retries and resumes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from outlast.activities.batches.contracts import BatchPlace, BatchState
from outlast.activities.batches.storage import LineReader, LineWriter, results_locator
from outlast.activities.contracts import Caller
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.reader import load_manifest, open_output
from outlast.api.access.limits.quotas import CountedPlaces, StoredBytes
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.batches.admission import Admitted
from outlast.api.outputs import refusals
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.visibility import batches_query, is_running
from outlast.contracts.batches import BatchChanges, BatchSettings
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.batches.contracts import BatchInput, BatchProgress, BatchSummary, LegRequest
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ToolCall

_LEAST_TTL_SECONDS = 3_600
"""Results are kept for an hour at least: a batch may wait for as long between two rows."""
_PAGE = 1_000
_RETRY_SECONDS = 30


@dataclass
class BatchStart:
    """The input of a batch's workflow, and the contents of its memo."""

    workflow_input: BatchInput
    summary: BatchSummary
    progress: BatchProgress | None = None


@dataclass(eq=False)
class BatchStarter:
    """Starts what was admitted."""

    client: Client
    objects: OutputObjects
    policy: PolicySource
    stored: StoredBytes
    fair: bool

    def __post_init__(self) -> None:
        self._places = CountedPlaces("batches", retry_after_seconds=_RETRY_SECONDS)

    def limits(self, caller: Caller) -> Limits:
        """The caller's limits."""
        return self.policy.of(caller.id).limits

    def writer(self, batch_id: str) -> LineWriter:
        """The writer that stores the items of a batch."""
        return LineWriter(self.objects, namespace=self.client.namespace, batch_id=batch_id)

    def reader(self, place: BatchPlace) -> LineReader:
        """The reader of the items of a batch."""
        return LineReader(self.objects, place.items, namespace=self.client.namespace, batch_id=place.batch_id)

    @asynccontextmanager
    async def place(self, caller: Caller, batch_id: str) -> AsyncGenerator[None]:
        """Start the batch within the block. Raises `StorageFull`, `TooManyRequests` for too many running batches."""
        await self.stored.check(caller.id)
        most = self.limits(caller).batches

        async def listed() -> set[str]:
            query = batches_query(caller.id, only_open=True)
            with temporal_errors():
                shown = self.client.list_workflows(query, limit=most + 1, page_size=min(most + 1, _PAGE))
                return {one.id async for one in shown}

        async def exists(batch_id: str) -> bool:
            with temporal_errors():
                return await is_running(self.client, batch_id)

        refusal = (
            f"{most} of your batches are running, which is your limit (`batches` in the operator's policy). "
            "Nothing was started: repeat the request when one of them has ended."
        )
        async with self._places.place(caller.id, batch_id, most, listed=listed, exists=exists, refusal=refusal):
            yield

    async def check_results(self, caller: Caller, batch_id: str) -> None:
        """Raise `OutputRefusal` if the results of the batch, on which a resume or a retry builds, were deleted.

        Expired results remain until Temporal removes the batch.
        """
        locator = results_locator(caller.id, batch_id)
        with refusals():
            if await load_manifest(self.objects, locator) is None:
                await open_output(self.objects, str(locator), caller.id)

    def of(
        self,
        batch_id: str,
        caller: Caller,
        settings: BatchSettings,
        admitted: Admitted,
        fingerprint: str,
        schedule_id: str | None,
    ) -> BatchStart:
        """The start of a batch of the admitted items."""
        call, summary = admitted.first.call, admitted.first.summary
        # There may be a hundred thousand items: by default, webhooks receive only the events of the batch.
        hearing = tuple(one for one in call.listeners if one.is_own or one.batch_items)
        common = call.model_copy(
            update={"arguments": {}, "batch_id": batch_id, "schedule_id": schedule_id, "listeners": hearing}
        )
        place = BatchPlace(
            batch_id=batch_id,
            caller_id=caller.id,
            call=common.model_dump(mode="json"),
            summary=summary.model_dump(mode="json"),
            items=admitted.items,
            starts_runs=summary.executor != "none",
            is_paid=summary.executor != "none" or call.proxies_mcp,
            share=self.limits(caller).concurrent_tasks,
            is_fair=self.fair,
            ttl_seconds=max(_LEAST_TTL_SECONDS, call.output.ttl_seconds),
        )
        options = settings.batch_options
        memo_summary = BatchSummary(
            tool=call.tool,
            mode=call.mode,
            executor=summary.executor,
            actor=summary.actor,
            name=settings.name,
            total=admitted.items.count,
            options=options,
            created_at=datetime.now(UTC),
            fingerprint=fingerprint,
        )
        workflow_input = BatchInput(place=place, options=options, state=BatchState(plan_end=admitted.items.count))
        return BatchStart(workflow_input, memo_summary)

    async def again(
        self,
        caller: Caller,
        description: WorkflowExecutionDescription,
        changes: BatchChanges,
        leg: LegRequest,
        state: BatchState,
    ) -> BatchInput:
        """The input of a further run from `state`, the end of the last one, with the caller's current limits."""
        before = await self.input_of(description)
        given = changes.model_dump(exclude={"categories"}, exclude_none=True)
        caps = self.policy.caps_of(caller.id)
        call = {
            **before.place.call,
            "caller": caller.model_dump(mode="json"),
            "caps": caps.model_dump(mode="json") if caps is not None else None,
        }
        share = self.limits(caller).concurrent_tasks
        return BatchInput(
            place=before.place.model_copy(update={"call": call, "share": share, "is_fair": self.fair}),
            options=before.options.model_validate({**before.options.model_dump(), **given}),
            state=state.model_copy(
                update={
                    "stop": None,
                    "stop_words": None,
                    "stop_before": state.stop or state.stop_before,
                    "stop_before_words": state.stop_words or state.stop_before_words,
                }
            ),
            leg=leg,
            listeners=before.listeners,
        )

    async def start(self, begun: BatchStart) -> None:
        """Start the workflow. Raises `WorkflowAlreadyStartedError`."""
        place, memos = begun.workflow_input.place, {memo.BATCH: begun.summary}
        schedule_id = ToolCall.model_validate(place.call).schedule_id
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        if begun.workflow_input.leg is not None:
            reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
        with temporal_errors():
            await self.client.start_workflow(
                BatchWorkflow.run,
                begun.workflow_input,
                id=place.batch_id,
                task_queue=TOOLS_TASK_QUEUE,
                id_reuse_policy=reuse,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={**memos, **({memo.BATCH_PROGRESS: begun.progress} if begun.progress is not None else {})},
                search_attributes=search_attributes.of_batch(
                    place.caller_id, place.batch_id, begun.summary.tool, schedule_id
                ),
                static_summary=f"{begun.summary.total} calls of {begun.summary.tool} for {place.caller_id}",
            )

    async def input_of(self, description: WorkflowExecutionDescription) -> BatchInput:
        """The input of a run."""
        handle = self.client.get_workflow_handle(description.id, run_id=description.run_id)
        with temporal_errors():
            first = await anext(aiter(handle.fetch_history_events(page_size=1)))
            payloads = first.workflow_execution_started_event_attributes.input.payloads
            return (await self.client.data_converter.decode(payloads, [BatchInput]))[0]
