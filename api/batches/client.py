"""`BatchClient`: batches over Temporal, their progress as events, and their results as JSON lines or CSV."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities import apify
from outlast.activities.batches.storage import LineReader
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure, classify
from outlast.activities.failures.exceptions import StoreUnavailable
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.api import errors
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.log import Action, AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.batches.admission import Intake
from outlast.api.batches.sources import SourceRow, dataset_rows, inline_rows, output_rows, too_many_items
from outlast.api.batches.starter import BatchStart, BatchStarter
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.admission import Admission
from outlast.api.temporal.batch_view import batch_from, outcome_of, unreadable_batch
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.history import DESCRIPTIONS
from outlast.api.temporal.history_details import error_of_stuck
from outlast.api.temporal.task_view import memo_model
from outlast.api.temporal.visibility import batches_query, derived_id, owned, page_of
from outlast.contracts import batches as contracts
from outlast.contracts.tasks import BatchEvent
from outlast.worker.payloads import UNREADABLE
from outlast.worker.stuck_tasks import cancel_workflow
from outlast.workflows.batches.contracts import BatchOutcome, BatchProgress, BatchStatus, BatchSummary, LegRequest
from outlast.workflows.contracts import memo

_LOOK_SECONDS = 1.0
MAX_PAGE = 100
_ENDED_BY_ITSELF = frozenset(
    {WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED, WorkflowExecutionStatus.CANCELED}
)
_DESCRIBED_AT_ONCE = 16


@dataclass(frozen=True)
class RowSource:
    """The source of the items of a batch."""

    read: Callable[[], AsyncGenerator[SourceRow]]
    """Gives the rows from the first one on. It may be called again."""
    are_texts: bool = False
    """True if all values are texts, as in CSV."""
    count: int = 0
    """Least number of rows, as far as it is known before they are read."""


@dataclass(eq=False)
class BatchClient:
    """Client of batches for every entry point. Its methods raise `ApiError`s, for example `TemporalUnavailable`."""

    client: Client
    admission: Admission
    starter: BatchStarter
    sealer: SecretSealer
    audit: AuditLog
    limits: CallerLimits
    ui_url: str | None
    """Root of the Temporal UI, for links."""

    async def start(
        self,
        caller: Caller,
        settings: contracts.BatchSettings,
        rows: RowSource,
        *,
        idempotency_key: str | None = None,
        schedule_id: str | None = None,
    ) -> contracts.Batch:
        """Admit all items and start the batch. The same key and request give the same batch.

        Raises what `Intake.admitted` raises, `IdempotencyKeyReused`, `StorageFull`, and `TooManyRequests` when the
        caller has too many running batches. Nothing is started then.
        """
        async with self.audit.action(AuditEvent.BATCH_STARTED, caller, tool=settings.tool) as action:
            batch_id = batch_id_of(caller, idempotency_key)
            action.note(batch=batch_id)
            intake = Intake(self.admission, caller, settings, max_items=self.starter.limits(caller).batch_items)
            found = await self._existing(caller, batch_id) if idempotency_key is not None else None
            if found is not None:
                action.note(outcome="repeated")
                return await self._repeated(found, self._fingerprints(settings, await intake.digest(rows.read())))
            return await self._start(batch_id, caller, settings, rows, intake, action, schedule_id)

    async def describe(self, caller: Caller, batch_id: str) -> contracts.Batch:
        """The current batch. Needs no worker. Raises `BatchNotFound`."""
        return await self._view(await self._described(caller, batch_id))

    async def items(self, caller: Caller, batch_id: str) -> LineReader:
        """A reader of the batch's items. Raises `BatchNotFound`."""
        return self.starter.reader((await self.starter.input_of(await self._described(caller, batch_id))).place)

    async def events(self, caller: Caller, batch_id: str) -> AsyncGenerator[BatchEvent]:
        """The state of the batch, whenever it changes, until it has ended. Raises `BatchNotFound`."""
        return progress_events(await self.describe(caller, batch_id), lambda: self.describe(caller, batch_id))

    async def list(
        self,
        caller: Caller,
        *,
        every: bool = False,
        only_open: bool = False,
        schedule_id: str | None = None,
        page_size: int = 50,
        page_token: str | None = None,
    ) -> contracts.BatchPage:
        """The caller's batches, or with `every` those of all callers: open ones first, then the most recently ended.

        Raises `BadRequest` for an invalid page token.
        """
        async with self.limits.awaited_slot(caller.id, "concurrent_lists"):
            query = batches_query(None if every else caller.id, only_open=only_open, schedule_id=schedule_id)
            found, token = await page_of(self.client, query, size=min(page_size, MAX_PAGE), token=page_token)
            # A batch that was resumed has several runs; the latest comes first.
            latest: dict[str, WorkflowExecution] = {}
            for execution in found:
                latest.setdefault(execution.id, execution)
            slots = asyncio.Semaphore(_DESCRIBED_AT_ONCE)
            shown = await asyncio.gather(*(self._listed(one, slots) for one in latest.values()))
            return contracts.BatchPage(
                batches=tuple(batch for batch in shown if batch is not None), next_page_token=token
            )

    async def _listed(self, execution: WorkflowExecution, slots: asyncio.Semaphore) -> contracts.Batch | None:
        """A batch of a list. Only the description of an open one counts the items of the current round."""
        if execution.status is WorkflowExecutionStatus.RUNNING:
            handle = self.client.get_workflow_handle(execution.id, run_id=execution.run_id)
            async with slots:
                with suppress(errors.BatchNotFound), temporal_errors(missing=_not_found(execution.id)):
                    execution = await handle.describe()
        return await self._shown(execution)

    async def cancel(self, caller: Caller, batch_id: str) -> contracts.Batch:
        """Start nothing more, and cancel running items. Raises `BatchFinished`, `BatchNotFound`."""
        async with self.audit.action(AuditEvent.BATCH_CANCELLED, caller, batch=batch_id):
            description = await self._described(caller, batch_id)
            if description.status is not WorkflowExecutionStatus.RUNNING:
                raise errors.BatchFinished(f"Batch {batch_id} has ended; there is nothing left to cancel.")
            with temporal_errors(missing=_not_found(batch_id)):
                await cancel_workflow(self.client, description)
        return await self.describe(caller, batch_id)

    async def resume(self, caller: Caller, batch_id: str, changes: contracts.BatchChanges) -> contracts.Batch:
        """Run the items that were not started, or were cancelled.

        Raises `BatchRunning`, `NothingToRun`, `BatchNotFound`, and `OutputRefusal` when its results were deleted.
        """
        async with self.audit.action(AuditEvent.BATCH_RESUMED, caller, batch=batch_id):
            return await self._run_again(caller, batch_id, changes, LegRequest(kind="resume"))

    async def retry(self, caller: Caller, batch_id: str, request: contracts.RetryRequest) -> contracts.Batch:
        """Run failed items again. Raises as `resume` does."""
        async with self.audit.action(AuditEvent.BATCH_RETRIED, caller, batch=batch_id):
            leg = LegRequest(kind="retry", categories=request.categories)
            return await self._run_again(caller, batch_id, request, leg)

    async def _start(
        self,
        batch_id: str,
        caller: Caller,
        settings: contracts.BatchSettings,
        rows: RowSource,
        intake: Intake,
        action: Action,
        schedule_id: str | None,
    ) -> contracts.Batch:
        if rows.count > intake.max_items:
            raise too_many_items(intake.max_items)
        async with self.starter.place(caller, batch_id):
            listeners = await self.admission.listeners.of_batch(caller, settings.webhooks)
            try:
                admitted = await intake.admitted(rows.read(), self.starter.writer(batch_id), are_texts=rows.are_texts)
            except StoreUnavailable as error:
                message = "The store that keeps the items does not answer. Nothing was started; send the batch again."
                raise errors.OutputStoreUnavailable(message) from error
            action.note(detail=f"{admitted.items.count} items", actor=admitted.first.summary.actor)
            fingerprints = self._fingerprints(settings, admitted.digest)
            try:
                begun = self.starter.of(batch_id, caller, settings, admitted, fingerprints[0], schedule_id)
                begun.workflow_input = begun.workflow_input.model_copy(update={"listeners": listeners})
                await self.starter.start(begun)
            except WorkflowAlreadyStartedError:
                action.note(outcome="repeated")
                return await self._repeated(await self._described(caller, batch_id), fingerprints)
        return await self.describe(caller, batch_id)

    async def _run_again(
        self, caller: Caller, batch_id: str, changes: contracts.BatchChanges, leg: LegRequest
    ) -> contracts.Batch:
        description = await self._described(caller, batch_id)
        if description.status is WorkflowExecutionStatus.RUNNING:
            raise errors.BatchRunning(f"Batch {batch_id} has not ended. Cancel it first, or wait for its end.")
        with temporal_errors():
            summary = await memo_model(description, memo.BATCH, BatchSummary)
        outcome = await self._outcome(description)
        if summary is None or outcome is None:
            raise errors.NothingToRun(
                f"Batch {batch_id} did not end by itself. Start a new one with the remaining items."
            )
        counts = outcome.state.counts
        left = counts.failed if leg.kind == "retry" else summary.total - counts.completed - counts.failed
        if left <= 0:
            what = "has failed" if leg.kind == "retry" else "was cancelled or left out"
            raise errors.NothingToRun(f"No item of batch {batch_id} {what}.")
        async with self.starter.place(caller, batch_id):
            if outcome.state.results.rows:
                await self.starter.check_results(caller, batch_id)
            workflow_input = await self.starter.again(caller, description, changes, leg, outcome.state)
            own = tuple(one for one in workflow_input.listeners if one.is_own)
            listeners = (*await self.admission.listeners.of_batch(caller), *own)
            workflow_input = workflow_input.model_copy(update={"listeners": listeners})
            summary = summary.model_copy(update={"options": workflow_input.options})
            try:
                await self.starter.start(BatchStart(workflow_input, summary, BatchProgress.of(workflow_input.state)))
            except WorkflowAlreadyStartedError:
                raise errors.BatchRunning(f"Batch {batch_id} is already running.") from None
        return await self.describe(caller, batch_id)

    def _fingerprints(self, settings: contracts.BatchSettings, digest: str) -> tuple[str, ...]:
        """Digests of the request, one per sealing key, see `Admission`."""
        webhooks = [one.in_the_clear for one in (*settings.webhooks, *settings.options.webhooks)]
        left_out = {"tool_mask": True, "webhooks": True, "options": {"webhooks"}}
        content = settings.model_dump(mode="json", exclude=left_out)
        return self.sealer.digests([content, digest, *webhooks])

    async def _existing(self, caller: Caller, batch_id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._described(caller, batch_id)
        except errors.BatchNotFound:
            return None

    async def _repeated(self, found: WorkflowExecutionDescription, fingerprints: tuple[str, ...]) -> contracts.Batch:
        with temporal_errors():
            first = await memo_model(found, memo.BATCH, BatchSummary)
        if first is None or first.fingerprint not in fingerprints:
            message = f"This key started batch {found.id} with another request. Use a new key for a new batch."
            raise errors.IdempotencyKeyReused(message)
        return await self._view(found)

    async def _described(self, caller: Caller, batch_id: str) -> WorkflowExecutionDescription:
        description = await owned(self.client, batch_id, caller, _not_found(batch_id))
        with suppress(*UNREADABLE):
            if await memo_model(description, memo.BATCH, BatchSummary) is None:
                raise _not_found(batch_id)
        return description

    async def _outcome(self, description: WorkflowExecutionDescription) -> BatchOutcome | None:
        if description.status not in _ENDED_BY_ITSELF:
            return None
        with temporal_errors(missing=_not_found(description.id)):
            return await outcome_of(self.client, description.id, description.run_id)

    async def _view(self, description: WorkflowExecutionDescription) -> contracts.Batch:
        batch = await self._shown(description, await self._outcome(description))
        if batch is None:
            raise _not_found(description.id)
        return batch

    async def _shown(self, execution: WorkflowExecution, outcome: BatchOutcome | None = None) -> contracts.Batch | None:
        """The batch of a workflow, with the reason if it cannot be read; None for a workflow of another kind."""
        try:
            with temporal_errors(missing=_not_found(execution.id)):
                error = await error_of_stuck(self.client, execution)
            ui_url, namespace = self.ui_url, self.client.namespace
            return await batch_from(execution, outcome=outcome, error=error, ui_url=ui_url, namespace=namespace)
        except UNREADABLE as error:
            return unreadable_batch(execution, unreadable_words(error))


def batch_id_of(caller: Caller, key: str | None) -> str:
    """The batch's id. With a key, it is the same for a repeated request."""
    return derived_id("batch", "batch", caller.id, key) if key is not None else f"batch-{secrets.token_hex(16)}"


def _not_found(batch_id: str) -> errors.BatchNotFound:
    return errors.BatchNotFound(
        f"You have no batch {batch_id!r}. Batches are kept as long as Temporal keeps their history."
    )


@dataclass(eq=False)
class StoredRows:
    """Starts batches of the items in a request, of a stored output, or of a dataset."""

    batches: BatchClient
    outputs: StoredOutputs
    platform: ApifyPlatform

    async def start(
        self,
        caller: Caller,
        settings: contracts.BatchSettings,
        items: Sequence[contracts.BatchItem] | None,
        rows: contracts.RowsOf | None,
        *,
        idempotency_key: str | None = None,
        schedule_id: str | None = None,
    ) -> contracts.Batch:
        """Start a batch of `items`, or else of the rows that `rows` names.

        Raises as `BatchClient.start` does, `OutputRefusal` for an output that cannot be read or has no rows,
        `BatchRefused` for a dataset that the caller does not have, and `PlatformUnavailable`.
        """
        if items is not None:
            source = RowSource(lambda: inline_rows(items), count=len(items))
        else:
            assert rows is not None, "a batch has items or rows"
            source = await self._source(caller, rows, settings.tool)
        key = idempotency_key
        return await self.batches.start(caller, settings, source, idempotency_key=key, schedule_id=schedule_id)

    async def check(self, caller: Caller, rows: contracts.RowsOf, tool: str) -> None:
        """Raise as `start` does if the caller cannot read `rows`. An empty dataset passes."""
        source = await self._source(caller, rows, tool)
        async with aclosing(source.read()) as found:
            await anext(found, None)

    async def _source(self, caller: Caller, rows: contracts.RowsOf, tool: str) -> RowSource:
        if rows.dataset is not None:
            dataset_id = rows.dataset
            with _platform_errors(dataset_id):
                found = await self.platform.client(caller).dataset(dataset_id).get()
            count = _wanted(rows, found.item_count if found is not None else 0)
            return RowSource(lambda: self._of_dataset(caller, dataset_id, rows), count=count)
        reader = await self.outputs.open(caller, rows.output or "")
        if reader.manifest.kind != "rows":
            envelope = ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, "This output has no rows.")
            raise errors.OutputRefusal("bad_selection", envelope)
        return RowSource(
            lambda: self.outputs.guarded(output_rows(reader, offset=rows.offset, limit=rows.limit)),
            count=_wanted(rows, reader.manifest.count or 0),
        )

    async def _of_dataset(self, caller: Caller, dataset_id: str, rows: contracts.RowsOf) -> AsyncGenerator[SourceRow]:
        client = self.platform.client(caller)
        with _platform_errors(dataset_id):
            async with aclosing(dataset_rows(client, dataset_id, offset=rows.offset, limit=rows.limit)) as found:
                async for row in found:
                    yield row


def _wanted(rows: contracts.RowsOf, count: int) -> int:
    """The number of the `count` existing rows that the request names."""
    left = max(0, count - rows.offset)
    return left if rows.limit is None else min(left, rows.limit)


@contextmanager
def _platform_errors(dataset_id: str) -> Generator[None]:
    try:
        yield
    except (apify.ApifyApiError, ToolFailure, OSError) as error:
        envelope = classify(error)
        message = f"Cannot read the dataset {dataset_id}: {envelope.message}"
        if envelope.category is ErrorCategory.AUTHENTICATION:
            raise errors.Unauthenticated(message) from error
        if envelope.retryable:
            raise errors.PlatformUnavailable(message) from error
        raise errors.BatchRefused(envelope) from error


async def progress_events(
    batch: contracts.Batch, look: Callable[[], Awaitable[contracts.Batch]]
) -> AsyncGenerator[BatchEvent]:
    """`batch`, then each change that `look` finds, at least a second apart; the last event is `ended`.

    Silent while Temporal does not answer. Raises what else `look` raises.
    """
    shown: contracts.Batch | None = None
    with DESCRIPTIONS.follower():
        while batch.status is BatchStatus.WORKING:
            if shown is None or (batch != shown and not _is_older(batch, shown)):
                shown = batch
                yield _event("progress", batch)
            await asyncio.sleep(DESCRIPTIONS.pause_seconds(_LOOK_SECONDS))
            try:
                batch = await look()
            except errors.TemporalUnavailable:
                continue
    yield _event("ended", batch)


def _is_older(batch: contracts.Batch, shown: contracts.Batch) -> bool:
    """Whether `batch` was read between the end of a round and the workflow's record of it, which still lacks the round.

    Neither count decreases otherwise: only items that failed run again.
    """
    return batch.completed < shown.completed or batch.cost_usd < shown.cost_usd


def _event(name: str, batch: contracts.Batch) -> BatchEvent:
    data = batch.model_dump(mode="json", exclude_none=True)
    return BatchEvent.model_validate({"name": name, "time": datetime.now(UTC), "data": data})
