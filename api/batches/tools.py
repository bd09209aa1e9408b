"""The tools that start and manage batches. They run without a workflow."""

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from outlast.activities.contracts import JsonObject
from outlast.activities.json_values import loads
from outlast.api.access.policy.contracts import Scope
from outlast.api.batches.client import BatchClient, StoredRows
from outlast.api.batches.results import result_pieces
from outlast.api.errors import OutputRefusal
from outlast.api.local_calls import LocalCall
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.tools import Handler, document, invalid, text_result
from outlast.api.temporal.history import DESCRIPTIONS
from outlast.contracts.batches import Batch, BatchItem, BatchSettings, ResultsSelection, RowsOf
from outlast.contracts.options import BatchOptions, to_wire
from outlast.workflows.batches.contracts import BatchStatus
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common import batch_tools as arguments
from outlast.workflows.tools.framework.phases import violations_of
from outlast.workflows.tools.framework.tool import invalid_arguments

BATCH_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    "start-batch": ("call",),
    "get-batch": ("read",),
    "get-batch-results": ("read",),
    "cancel-batch": ("cancel",),
}
"""The scopes of each tool. A key needs one of them."""
MAX_ANSWER_BYTES = 48 * 1024
_LOOK_SECONDS = 1.0


class BatchTools:
    """Runs the batch tools for a caller, who sees only its own batches."""

    def __init__(self, batches: BatchClient, rows: StoredRows, outputs: StoredOutputs) -> None:
        self._batches = batches
        self._rows = rows
        self._outputs = outputs
        self.handlers: dict[str, Handler] = {
            "start-batch": self._start,
            "get-batch": self._get,
            "get-batch-results": self._results,
            "cancel-batch": self._cancel,
        }

    async def _start(self, call: LocalCall, asked: arguments.StartBatchArguments) -> ToolResult:
        caller, settings = call.principal.caller, _settings(call, asked)
        call.check_offered(asked.tool, besides=BATCH_TOOL_SCOPES)
        items, rows = None, None
        if asked.items is not None:
            items = [BatchItem(key=item.key, arguments=item.arguments) for item in asked.items]
        else:
            rows = RowsOf(output=asked.locator, dataset=asked.dataset_id)
        batch = await self._rows.start(caller, settings, items, rows, idempotency_key=call.idempotency_key)
        return _state(batch, "It has started. Call get-batch, with waitSecs, for its progress.")

    async def _get(self, call: LocalCall, asked: arguments.GetBatchArguments) -> ToolResult:
        clock = asyncio.get_running_loop()
        until = clock.time() + asked.wait_secs
        with DESCRIPTIONS.follower():
            while True:
                batch = await self._batches.describe(call.principal.caller, asked.batch_id)
                left = until - clock.time()
                if batch.status is not BatchStatus.WORKING or left <= 0:
                    return _state(batch, _next_step(batch))
                await asyncio.sleep(min(DESCRIPTIONS.pause_seconds(_LOOK_SECONDS), left))

    async def _results(self, call: LocalCall, asked: arguments.GetBatchResultsArguments) -> ToolResult:
        caller = call.principal.caller
        batch = await self._batches.describe(caller, asked.batch_id)
        try:
            reader = await self._outputs.open(caller, batch.results)
        except OutputRefusal as refusal:
            if refusal.status != 404:
                raise
            return _state(batch, "There are no results yet.")
        chosen = ResultsSelection(status=asked.status, offset=asked.offset, limit=asked.limit)
        lines: list[bytes] = []
        size = 0
        async for piece in self._outputs.guarded(result_pieces(reader, chosen)):
            for line in piece.splitlines():
                size += len(line) + 1
                if size > MAX_ANSWER_BYTES and lines:
                    return _rows(batch, lines, asked.offset, more=True)
                lines.append(line)
        return _rows(batch, lines, asked.offset, more=len(lines) == asked.limit)

    async def _cancel(self, call: LocalCall, asked: arguments.BatchArguments) -> ToolResult:
        batch = await self._batches.cancel(call.principal.caller, asked.batch_id)
        return _state(batch, "It ends when the running items have ended; get-batch shows when.")


def _settings(call: LocalCall, asked: arguments.StartBatchArguments) -> BatchSettings:
    """The settings of the batch. Raises `ToolError` for settings that the API refuses."""
    if sum(source is not None for source in (asked.items, asked.locator, asked.dataset_id)) != 1:
        raise invalid(call, "Give `items`, a `locator` or a `datasetId`: one of them.")
    options = _options(call, asked)
    if options.get("reuse") is not None and asked.budget_usd is not None and options.get("max_usd") is None:
        message = (
            "With `reuse` (`reuseMaxAge`) and `budgetUsd`, give `max_usd` (`itemBudgetUsd`), too: runs are identical "
            "only with the same limit."
        )
        raise invalid(call, message)
    try:
        return BatchSettings.model_validate(
            {
                "tool": asked.tool,
                "arguments": asked.arguments,
                "mode": call.mode,
                "name": asked.name,
                "mapping": asked.mapping,
                "key": asked.key,
                "concurrency": asked.concurrency,
                "budget_usd": asked.budget_usd,
                "tool_mask": dict(call.mask) if call.mask is not None else None,
                **call.with_options(to_wire(BatchOptions, options)),
            }
        )
    except ValidationError as error:
        raise ToolError(invalid_arguments(call.definition.name, violations_of(error))) from error


def _options(call: LocalCall, asked: arguments.StartBatchArguments) -> dict[str, Any]:
    """The options by their declared names. Raises `ToolError` for one that also has an argument with another name."""
    stop = {"failures": asked.stop_after_failures, "completed": asked.enough}
    older: dict[str, Any] = {
        "max_usd": asked.item_budget_usd,
        "reuse": asked.reuse_max_age,
        "stop": {name: value for name, value in stop.items() if value is not None} or None,
    }
    older = {name: value for name, value in older.items() if value is not None}
    twice = sorted(older.keys() & asked.options.keys())
    if twice:
        message = f"`{twice[0]}` in `options` means the same as another argument that you gave: give one of them."
        raise invalid(call, message)
    return {**older, **asked.options}


def _state(batch: Batch, next_step: str) -> ToolResult:
    counts = f"{batch.completed} completed, {batch.failed} failed, {batch.cancelled} cancelled"
    left = f"{batch.under_way} running, {batch.waiting} not started"
    cost = f"Cost so far: {batch.cost_usd:g} US dollars."
    lines = [f"{batch.id} ({batch.tool}, {batch.total} items) is {batch.status}: {counts}, {left}. {cost}"]
    if batch.seconds_left is not None:
        lines.append(f"It will take about {batch.seconds_left:.0f} seconds more.")
    if batch.status_message:
        lines.append(batch.status_message)
    return text_result([*lines, next_step], {"batch": document(batch)})


def _next_step(batch: Batch) -> str:
    if batch.status is BatchStatus.WORKING:
        return "It is still working. Call get-batch again, with waitSecs; get-batch-results has the results so far."
    return f"Its results are stored as {batch.results}; get-batch-results shows them."


def _rows(batch: Batch, lines: list[bytes], offset: int, *, more: bool) -> ToolResult:
    ended, end = batch.completed + batch.failed + batch.cancelled, offset + len(lines)
    head = f"{len(lines)} rows of {batch.id}, from row {offset} on. It is {batch.status}; {ended} items have ended."
    next_step = [f"Call get-batch-results with offset {end} for more."] if more else []
    structured: JsonObject = {"items": [loads(line) for line in lines]}
    if more or batch.status is BatchStatus.WORKING:
        structured["nextOffset"] = end  # A reader that follows it to the end of an ended batch comes to one.
    return text_result([head, *(line.decode() for line in lines), *next_step], structured)
