"""`StoredRows`: batches of rows that are kept already, in a stored output or in a dataset of the platform."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager

from outlast.activities import apify
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure, classify
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.api.batches.client import BatchClient, RowSource
from outlast.api.batches.sources import SourceRow, dataset_rows, output_rows
from outlast.api.errors import BatchRefused, OutputRefusal, PlatformUnavailable, Unauthenticated
from outlast.api.outputs import StoredOutputs
from outlast.contracts.batches import Batch, BatchSettings, RowsOf


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
