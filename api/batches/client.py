"""`BatchClient`: batches over Temporal, their progress as events, and their results as JSON lines or CSV.

A batch is a workflow; its items are tasks like any other.
"""

import asyncio
import csv
import hashlib
import io
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities import apify
from outlast.activities.batches.contracts import ItemStatus
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure, classify
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.output_errors import StoreUnavailable
from outlast.activities.json_values import loads, text_of
from outlast.activities.outputs.reader import OutputReader
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets.encryption import SecretSealer
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import Action, AuditLog
from outlast.api.batches.admission import Intake
from outlast.api.batches.sources import SourceRow, dataset_rows, output_rows, too_many_items
from outlast.api.batches.starter import BatchStart, BatchStarter
from outlast.api.errors import (
    BadRequest,
    BatchFinished,
    BatchNotFound,
    BatchRefused,
    BatchRunning,
    IdempotencyKeyReused,
    NothingToRun,
    OutputRefusal,
    OutputStoreUnavailable,
    PlatformUnavailable,
    TemporalUnavailable,
    Unauthenticated,
)
from outlast.api.outputs import StoredOutputs
from outlast.api.spreadsheets import safe_cell
from outlast.api.tasks.admission import Admission
from outlast.api.temporal.batch_view import batch_from, outcome_of, unreadable_batch
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.history import DESCRIPTIONS
from outlast.api.temporal.history_details import error_of_stuck
from outlast.api.temporal.task_view import memo_model, owner_of
from outlast.api.temporal.visibility import batches_query, read_page_token, write_page_token
from outlast.contracts.batches import (
    Batch,
    BatchChanges,
    BatchPage,
    BatchSettings,
    ResultsSelection,
    RetryRequest,
    RowsOf,
)
from outlast.contracts.events import BatchEvent
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.worker.stuck_tasks import cancel_workflow
from outlast.workflows.batches.contracts import BatchOutcome, BatchProgress, BatchStatus, BatchSummary, LegRequest
from outlast.workflows.contracts import memo

_LOOK_SECONDS = 1.0
COLUMNS = (
    "key",
    "index",
    "status",
    "task_id",
    "attempts",
    "run_id",
    "dataset_id",
    "cost_usd",
    "seconds",
    "rows",
    "locator",
    "error_category",
    "error_message",
    "items",
    "result",
    "text",
)
"""Of CSV. Lists and objects are JSON."""
MAX_PAGE = 100
_DESCRIBED_AT_ONCE = 16
_OLD_PAGE = "The page token is no longer valid; list again from the first page."


@dataclass(frozen=True)
class RowSource:
    """Where the items of a batch come from."""

    read: Callable[[], AsyncGenerator[SourceRow]]
    """Gives the rows from the first one on. It may be called again."""
    are_texts: bool = False
    """Whether all values are texts, as in CSV."""
    count: int = 0
    """How many there are at least, as far as that is known before they are read."""


class BatchClient:
    """Starts, describes, lists, cancels, resumes and retries batches, for every entry point.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`.
    """

    def __init__(
        self,
        client: Client,
        admission: Admission,
        starter: BatchStarter,
        sealer: SecretSealer,
        audit: AuditLog,
        limits: CallerLimits,
        *,
        ui_url: str | None,
    ) -> None:
        """Start with `starter` what `admission` lets through; record what callers do in `audit`.

        Lists take turns within the `limits` of their caller. `ui_url` is the root of the Temporal UI, for links.
        """
        self._client = client
        self._admission = admission
        self._starter = starter
        self._sealer = sealer
        self._audit = audit
        self._limits = limits
        self._listeners = admission.listeners
        self._ui_url = ui_url

    async def start(
        self,
        caller: Caller,
        settings: BatchSettings,
        rows: RowSource,
        *,
        idempotency_key: str | None = None,
        schedule_id: str | None = None,
    ) -> Batch:
        """Admit all items and start the batch, for a schedule if one is named. The same key and request give the same
        batch.

        Raises what `Intake.admitted` raises, `IdempotencyKeyReused`, `StorageFull`, and `TooManyRequests` when the
        caller has as many batches at work as it may. Nothing is started then.
        """
        async with self._audit.action(AuditEvent.BATCH_STARTED, caller, tool=settings.tool) as action:
            batch_id = batch_id_of(caller, idempotency_key)
            action.note(batch=batch_id)
            intake = Intake(self._admission, caller, settings, max_items=self._most_items(caller))
            found = await self._existing(caller, batch_id) if idempotency_key is not None else None
            if found is not None:
                action.note(outcome="repeated")
                return await self._repeated(found, self._fingerprints(settings, await intake.digest(rows.read())))
            return await self._start(batch_id, caller, settings, rows, intake, action, schedule_id)

    async def describe(self, caller: Caller, batch_id: str) -> Batch:
        """The batch as it is now. Readable while no worker is alive. Raises `BatchNotFound`."""
        return await self._view(await self._described(caller, batch_id))

    async def events(self, caller: Caller, batch_id: str) -> AsyncGenerator[BatchEvent]:
        """The state of the batch, whenever it changes, until it has ended. Raises `BatchNotFound`."""
        return progress_events(await self.describe(caller, batch_id), lambda: self.describe(caller, batch_id))

    async def list(
        self,
        caller: Caller,
        *,
        only_open: bool = False,
        schedule_id: str | None = None,
        page_size: int = 50,
        page_token: str | None = None,
    ) -> BatchPage:
        """The caller's batches: open ones first, then those that ended last. Raises `BadRequest` for a page token."""
        async with self._limits.awaited_slot(caller.id, "concurrent_lists"):
            query = batches_query(caller.id, only_open=only_open, schedule_id=schedule_id)
            token = read_page_token(page_token, query) if page_token else None
            size = min(page_size, MAX_PAGE)
            pages = self._client.list_workflows(query, page_size=size, next_page_token=token)
            with temporal_errors(invalid=BadRequest(_OLD_PAGE)):
                await pages.fetch_next_page(page_size=size)
            # A batch that was resumed has several runs; the latest comes first.
            latest: dict[str, WorkflowExecution] = {}
            for execution in pages.current_page or ():
                latest.setdefault(execution.id, execution)
            slots = asyncio.Semaphore(_DESCRIBED_AT_ONCE)
            shown = await asyncio.gather(*(self._listed(one, caller, slots) for one in latest.values()))
            next_token = write_page_token(pages.next_page_token, query) if pages.next_page_token else None
            return BatchPage(batches=tuple(batch for batch in shown if batch is not None), next_page_token=next_token)

    async def _listed(self, execution: WorkflowExecution, caller: Caller, slots: asyncio.Semaphore) -> Batch | None:
        """A batch in a list, which one that cannot be read does not spoil.

        Only the description of an open one counts the items of the round at work.
        """
        try:
            if execution.status is WorkflowExecutionStatus.RUNNING:
                handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
                async with slots:
                    with suppress(BatchNotFound), temporal_errors(missing=_not_found(execution.id)):
                        execution = await handle.describe()
            return await batch_from(
                execution,
                error=await self._error(execution),
                ui_url=self._ui_url,
                namespace=self._client.namespace,
            )
        except UNREADABLE as error:
            return unreadable_batch(execution, caller.id, unreadable_words(error))

    async def cancel(self, caller: Caller, batch_id: str) -> Batch:
        """Start nothing more, and cancel what is under way. The batch ends with what there is.

        Raises `BatchFinished`, `BatchNotFound`.
        """
        async with self._audit.action(AuditEvent.BATCH_CANCELLED, caller, batch=batch_id):
            description = await self._described(caller, batch_id)
            if description.status is not WorkflowExecutionStatus.RUNNING:
                raise BatchFinished(f"Batch {batch_id} has ended; there is nothing left to cancel.")
            with temporal_errors(missing=_not_found(batch_id)):
                await cancel_workflow(self._client, description)
        return await self.describe(caller, batch_id)

    async def resume(self, caller: Caller, batch_id: str, changes: BatchChanges) -> Batch:
        """Go on with what was not started, or was cancelled.

        Raises `BatchRunning`, `NothingToRun`, `BatchNotFound`, and `OutputRefusal` when its results were deleted.
        """
        async with self._audit.action(AuditEvent.BATCH_RESUMED, caller, batch=batch_id):
            return await self._go_on(caller, batch_id, changes, LegRequest(kind="resume"))

    async def retry(self, caller: Caller, batch_id: str, request: RetryRequest) -> Batch:
        """Run failed items again. Raises as `resume` does."""
        async with self._audit.action(AuditEvent.BATCH_RETRIED, caller, batch=batch_id):
            return await self._go_on(caller, batch_id, request, LegRequest(kind="retry", categories=request.categories))

    async def _start(
        self,
        batch_id: str,
        caller: Caller,
        settings: BatchSettings,
        rows: RowSource,
        intake: Intake,
        action: Action,
        schedule_id: str | None,
    ) -> Batch:
        if rows.count > (most := self._most_items(caller)):
            raise too_many_items(most)
        async with self._starter.place(caller, batch_id):
            listeners = await self._listeners.of_batch(caller, settings.webhooks)
            try:
                admitted = await intake.admitted(rows.read(), self._starter.writer(batch_id), are_texts=rows.are_texts)
            except StoreUnavailable as error:
                raise OutputStoreUnavailable(
                    "The store that keeps the items does not answer. Nothing was started; send the batch again."
                ) from error
            action.note(detail=f"{admitted.items.count} items", actor=admitted.first.summary.actor)
            fingerprints = self._fingerprints(settings, admitted.digest)
            try:
                begun = self._starter.of(batch_id, caller, settings, admitted, fingerprints[0], schedule_id)
                await self._starter.start(begun.told_to(listeners))
            except WorkflowAlreadyStartedError:
                action.note(outcome="repeated")
                return await self._repeated(await self._described(caller, batch_id), fingerprints)
        return await self.describe(caller, batch_id)

    async def _go_on(self, caller: Caller, batch_id: str, changes: BatchChanges, leg: LegRequest) -> Batch:
        description = await self._described(caller, batch_id)
        if description.status is WorkflowExecutionStatus.RUNNING:
            raise BatchRunning(f"Batch {batch_id} has not ended. Cancel it first, or wait for its end.")
        with temporal_errors():
            summary = await memo_model(description, memo.BATCH, BatchSummary)
        outcome = await self._outcome(description)
        if summary is None or outcome is None:
            raise NothingToRun(f"Batch {batch_id} did not end by itself. Start a new one with the items that are left.")
        counts = outcome.state.counts
        left = counts.failed if leg.kind == "retry" else summary.total - counts.completed - counts.failed
        if left <= 0:
            what = "has failed" if leg.kind == "retry" else "was cancelled or left out"
            raise NothingToRun(f"No item of batch {batch_id} {what}.")
        async with self._starter.place(caller, batch_id):
            if outcome.state.results.rows:
                await self._starter.check_results(caller, batch_id)
            workflow_input = await self._starter.again(caller, description, changes, leg, outcome.state)
            own = tuple(one for one in workflow_input.listeners if one.is_own)
            workflow_input = workflow_input.model_copy(
                update={"listeners": (*await self._listeners.of_batch(caller), *own)}
            )
            summary = summary.model_copy(update={"options": workflow_input.options})
            try:
                await self._starter.start(BatchStart(workflow_input, summary, BatchProgress.of(workflow_input.state)))
            except WorkflowAlreadyStartedError:
                raise BatchRunning(f"Batch {batch_id} is going on already.") from None
        return await self.describe(caller, batch_id)

    def _most_items(self, caller: Caller) -> int:
        return self._starter.limits(caller).batch_items

    def _fingerprints(self, settings: BatchSettings, digest: str) -> tuple[str, ...]:
        """Digests of the request, one per sealing key, see `Admission`."""
        told = [one.in_the_clear for one in (*settings.webhooks, *settings.options.webhooks)]
        left_out = {"tool_mask": True, "webhooks": True, "options": {"webhooks"}}
        content = settings.model_dump(mode="json", exclude=left_out)
        return self._sealer.digests([content, digest, *told])

    async def _existing(self, caller: Caller, batch_id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._described(caller, batch_id)
        except BatchNotFound:
            return None

    async def _repeated(self, found: WorkflowExecutionDescription, fingerprints: tuple[str, ...]) -> Batch:
        with temporal_errors():
            first = await memo_model(found, memo.BATCH, BatchSummary)
        if first is None or first.fingerprint not in fingerprints:
            raise IdempotencyKeyReused(
                f"This key started batch {found.id} with another request. Use a new key for a new batch."
            )
        return await self._view(found)

    async def _described(self, caller: Caller, batch_id: str) -> WorkflowExecutionDescription:
        with temporal_errors(missing=_not_found(batch_id)):
            description = await self._client.get_workflow_handle(batch_id).describe()
        if owner_of(description) != caller.id or not await _is_batch(description):
            raise _not_found(batch_id)
        return description

    async def _outcome(self, description: WorkflowExecutionDescription) -> BatchOutcome | None:
        if description.status is not WorkflowExecutionStatus.COMPLETED:
            return None
        with temporal_errors(missing=_not_found(description.id)):
            return await outcome_of(self._client, description.id, description.run_id)

    async def _error(self, execution: WorkflowExecution) -> ErrorEnvelope | None:
        """Why a batch was ended that was stuck."""
        with temporal_errors(missing=_not_found(execution.id)):
            return await error_of_stuck(self._client, execution)

    async def _view(self, description: WorkflowExecutionDescription) -> Batch:
        outcome = await self._outcome(description)
        try:
            batch = await batch_from(
                description,
                outcome=outcome,
                error=await self._error(description),
                ui_url=self._ui_url,
                namespace=self._client.namespace,
            )
        except UNREADABLE as error:
            batch = unreadable_batch(description, owner_of(description) or "", unreadable_words(error))
        if batch is None:
            raise _not_found(description.id)
        return batch


async def _is_batch(description: WorkflowExecutionDescription) -> bool:
    try:
        return await memo_model(description, memo.BATCH, BatchSummary) is not None
    except UNREADABLE:
        return True


def batch_id_of(caller: Caller, key: str | None) -> str:
    """The batch's id. With a key, it is a digest of caller and key, so that a repeated request finds the same batch."""
    if key is None:
        return f"batch-{secrets.token_hex(16)}"
    return f"batch-{hashlib.sha256(json.dumps(['batch', caller.id, key]).encode()).hexdigest()[:32]}"


def _not_found(batch_id: str) -> BatchNotFound:
    return BatchNotFound(f"You have no batch {batch_id!r}. Batches are kept as long as Temporal keeps their history.")


class StoredRows:
    """Starts such batches."""

    def __init__(self, batches: BatchClient, outputs: StoredOutputs, platform: ApifyPlatform) -> None:
        """Read `outputs`, and datasets of `platform`."""
        self._batches = batches
        self._outputs = outputs
        self._platform = platform

    async def start(
        self,
        caller: Caller,
        settings: BatchSettings,
        rows: RowsOf,
        *,
        idempotency_key: str | None = None,
        schedule_id: str | None = None,
    ) -> Batch:
        """Start a batch of the rows that `rows` names, for a schedule if one is named.

        Raises as `BatchClient.start` does, `OutputRefusal` for an output that cannot be read or has no rows,
        `BatchRefused` for a dataset that the caller does not have, and `PlatformUnavailable`.
        """
        source = await self._source(caller, rows, settings.tool)
        return await self._batches.start(
            caller, settings, source, idempotency_key=idempotency_key, schedule_id=schedule_id
        )

    async def check(self, caller: Caller, rows: RowsOf, tool: str) -> None:
        """Raise as `start` does where the caller cannot read `rows`. An empty dataset passes."""
        source = await self._source(caller, rows, tool)
        async with aclosing(source.read()) as found:
            await anext(found, None)

    async def _source(self, caller: Caller, rows: RowsOf, tool: str) -> RowSource:
        if rows.dataset is not None:
            dataset_id = rows.dataset
            with _platform_errors(dataset_id):
                found = await self._platform.client(caller).dataset(dataset_id).get()
            count = _wanted(rows, found.item_count if found is not None else 0)
            return RowSource(lambda: self._of_dataset(caller, dataset_id, rows), count=count)
        reader = await self._outputs.open(caller, rows.output or "")
        if reader.manifest.kind != "rows":
            raise OutputRefusal(
                "bad_selection",
                ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, "This output has no rows."),
            )
        return RowSource(
            lambda: self._outputs.guarded(output_rows(reader, offset=rows.offset, limit=rows.limit)),
            count=_wanted(rows, reader.manifest.count or 0),
        )

    async def _of_dataset(self, caller: Caller, dataset_id: str, rows: RowsOf) -> AsyncGenerator[SourceRow]:
        client = self._platform.client(caller)
        with _platform_errors(dataset_id):
            async with aclosing(dataset_rows(client, dataset_id, offset=rows.offset, limit=rows.limit)) as found:
                async for row in found:
                    yield row


def _wanted(rows: RowsOf, count: int) -> int:
    """How many of the `count` rows that there are, the request names."""
    left = max(0, count - rows.offset)
    return left if rows.limit is None else min(left, rows.limit)


@contextmanager
def _platform_errors(dataset_id: str) -> Generator[None]:
    try:
        yield
    except (apify.ApifyApiError, ToolFailure, OSError) as error:
        envelope = classify(error)
        if envelope.category is ErrorCategory.AUTHENTICATION:
            raise Unauthenticated(f"Cannot read the dataset {dataset_id}: {envelope.message}") from error
        if envelope.retryable:
            raise PlatformUnavailable(f"Cannot read the dataset {dataset_id}: {envelope.message}") from error
        raise BatchRefused(envelope) from error


async def progress_events(batch: Batch, look: Callable[[], Awaitable[Batch]]) -> AsyncGenerator[BatchEvent]:
    """`batch`, then what `look` finds changed, a second apart at least; the last event is `ended`.

    Silent while Temporal is away. Raises what else `look` raises.
    """
    shown: Batch | None = None
    with DESCRIPTIONS.follower():
        while batch.status is BatchStatus.WORKING:
            if batch != shown:
                shown = batch
                yield _event("progress", batch)
            await asyncio.sleep(DESCRIPTIONS.pause_seconds(_LOOK_SECONDS))
            try:
                batch = await look()
            except TemporalUnavailable:
                continue
    yield _event("ended", batch)


def _event(name: str, batch: Batch) -> BatchEvent:
    data = batch.model_dump(mode="json", exclude_none=True)
    return BatchEvent.model_validate({"name": name, "time": datetime.now(UTC), "data": data})


async def result_pieces(reader: OutputReader, selection: ResultsSelection) -> AsyncGenerator[bytes]:
    """The selected rows, in pieces."""
    form = selection.form
    if form == "csv":
        yield _csv_lines([COLUMNS])
    left = selection.limit
    async with aclosing(_batches(reader, selection.status, selection.offset)) as batches:
        async for rows in batches:
            some = rows if left is None else rows[:left]
            left = None if left is None else left - len(some)
            if some and form == "jsonl":
                yield b"".join(row + b"\n" for row in some)
            elif some:
                yield _csv_of(some, safe=selection.csv_safe)
            del rows, some
            if left == 0:
                return


async def _batches(reader: OutputReader, status: ItemStatus | None, offset: int) -> AsyncGenerator[list[bytes]]:
    async with aclosing(reader.row_batches(offset if status is None else 0)) as batches:
        async for rows in batches:
            if status is None:
                yield rows
            else:
                chosen = [row for row in rows if loads(row)["status"] == status]
                skipped = min(offset, len(chosen))
                offset -= skipped
                yield chosen[skipped:]
                del chosen
            del rows


def _csv_of(rows: list[bytes], *, safe: bool) -> bytes:
    cells = map(_cells, rows)
    return _csv_lines([safe_cell(cell) for cell in row] for row in cells) if safe else _csv_lines(cells)


def _cells(row: bytes) -> list[Any]:
    fields = cast(dict[str, Any], loads(row))
    error = cast(dict[str, Any], fields.get("error") or {})
    fields = {**fields, "error_category": error.get("category"), "error_message": error.get("message")}
    return [_cell(fields.get(name)) for name in COLUMNS]


def _cell(value: object) -> object:
    return text_of(cast(Any, value)).decode() if isinstance(value, dict | list) else "" if value is None else value


def _csv_lines(rows: Any) -> bytes:
    """RFC 4180."""
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode(errors="replace")
