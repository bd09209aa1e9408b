"""`BatchStarter`: starts the workflows of batches, and those of their retries and resumes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from outlast.activities.batches.contracts import BatchPlace, BatchState
from outlast.activities.batches.items import LineWriter
from outlast.activities.batches.results import results_locator
from outlast.activities.contracts import Caller
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.outputs.reader import load_manifest, open_output
from outlast.activities.webhooks.contracts import WebhookListener
from outlast.api.access.limits.quotas import CountedPlaces, StoredBytes
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.batches.admission import Admitted
from outlast.api.errors import BatchNotFound
from outlast.api.outputs import refusals
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.visibility import batches_query
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


@dataclass(frozen=True)
class BatchStart:
    """What a batch begins with: the input of its workflow, and what its memo says."""

    workflow_input: BatchInput
    summary: BatchSummary
    progress: BatchProgress | None = None

    def told_to(self, listeners: tuple[WebhookListener, ...]) -> "BatchStart":
        """The same, with the webhooks that hear of the batch."""
        return replace(self, workflow_input=self.workflow_input.model_copy(update={"listeners": listeners}))


class BatchStarter:
    """Starts what was admitted."""

    def __init__(
        self, client: Client, objects: OutputObjects, policy: PolicySource, stored: StoredBytes, *, fair: bool
    ) -> None:
        """Keep items in `objects`, and apply the limits of the `policy` in force. With `fair`, callers get equal
        shares of the workers.
        """
        self._client = client
        self._objects = objects
        self._policy = policy
        self._stored = stored
        self._fair = fair
        self._places = CountedPlaces("batches", retry_after_seconds=_RETRY_SECONDS)

    def limits(self, caller: Caller) -> Limits:
        """Limits on what the caller has under way at a time."""
        return self._policy.of(caller.id).limits

    def writer(self, batch_id: str) -> LineWriter:
        """What keeps the items of a batch."""
        return LineWriter(self._objects, namespace=self._client.namespace, batch_id=batch_id)

    @asynccontextmanager
    async def place(self, caller: Caller, batch_id: str) -> AsyncGenerator[None]:
        """Start the batch within the block.

        Raises `StorageFull`, and `TooManyRequests` when as many batches of the caller are at work as may be.
        """
        await self._stored.check(caller.id)
        most = self.limits(caller).batches

        async def listed() -> set[str]:
            query = batches_query(caller.id, only_open=True)
            with temporal_errors():
                shown = self._client.list_workflows(query, limit=most + 1, page_size=min(most + 1, _PAGE))
                return {one.id async for one in shown}

        refusal = (
            f"{most} of your batches are at work, which is the most that may be (`batches` in the operator's policy). "
            "Nothing was started: repeat the request when one of them has ended."
        )
        async with self._places.place(
            caller.id, batch_id, most, listed=listed, exists=self._is_at_work, refusal=refusal
        ):
            yield

    async def _is_at_work(self, batch_id: str) -> bool:
        missing = BatchNotFound(batch_id)
        try:
            with temporal_errors(missing=missing):
                described = await self._client.get_workflow_handle(batch_id).describe()
        except BatchNotFound:
            return False
        return described.status is WorkflowExecutionStatus.RUNNING

    async def check_results(self, caller: Caller, batch_id: str) -> None:
        """Raise `OutputRefusal` when the results of the batch were deleted: a resume or a retry builds on them.

        Expired ones are there until Temporal forgets the batch.
        """
        locator = results_locator(caller.id, batch_id)
        with refusals():
            if await load_manifest(self._objects, locator) is None:
                await open_output(self._objects, str(locator), caller.id)

    def of(
        self,
        batch_id: str,
        caller: Caller,
        settings: BatchSettings,
        admitted: Admitted,
        fingerprint: str,
        schedule_id: str | None,
    ) -> BatchStart:
        """What a batch of the admitted items begins with."""
        call, summary = admitted.first.call, admitted.first.summary
        # There may be a hundred thousand items: who has not asked for it hears of the batch only.
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
            is_fair=self._fair,
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
        """The input to go on from `state`, the end of a run, with what holds for the caller now."""
        before = await self._input_of(description)
        given = changes.model_dump(exclude={"categories"}, exclude_none=True)
        caps = self._policy.caps_of(caller.id)
        call = {
            **before.place.call,
            "caller": caller.model_dump(mode="json"),
            "caps": caps.model_dump(mode="json") if caps is not None else None,
        }
        share = self.limits(caller).concurrent_tasks
        return BatchInput(
            place=before.place.model_copy(update={"call": call, "share": share, "is_fair": self._fair}),
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
            await self._client.start_workflow(
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

    async def _input_of(self, description: WorkflowExecutionDescription) -> BatchInput:
        """The input of a run."""
        handle = self._client.get_workflow_handle(description.id, run_id=description.run_id)
        with temporal_errors():
            first = await anext(aiter(handle.fetch_history_events(page_size=1)))
            payloads = first.workflow_execution_started_event_attributes.input.payloads
            return (await self._client.data_converter.decode(payloads, [BatchInput]))[0]
