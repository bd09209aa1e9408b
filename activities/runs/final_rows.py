"""The rows of a run that has ended, returned with its final state when they are few."""

import time

from temporalio import activity

from outlast.activities.failures.classify import redact
from outlast.activities.platform import apify
from outlast.activities.runs.contracts import EndedRun, WaitRunInput
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.activities.storages.described_pages import fetch_described_page

_MOST_ROWS = 1_000


async def with_few_rows(client: "apify.ApifyClientAsync", request: WaitRunInput, ended: EndedRun) -> EndedRun:
    """`ended` with all its rows, when `request` asks for them and they fit.

    Rows that cannot be read are left out: the end of the run must not be lost with them, and a tool that needs the rows
    reads them again.
    """
    if request.rows_within_bytes is None or not ended.is_final:
        return ended
    wanted = DatasetItemsInput(
        caller=request.caller,
        dataset_id=ended.dataset_id,
        limit=_MOST_ROWS,
        max_bytes=request.rows_within_bytes,
        whole=True,
        expect_items=ended.status == "SUCCEEDED" or ended.until_met is not None,
        describe_run_store=ended.key_value_store_id,
    )
    began = time.monotonic()
    try:
        rows = await fetch_described_page(client, wanted)
        return ended.model_copy(update={"rows": rows, "read_seconds": round(time.monotonic() - began, 3)})
    except Exception as error:  # noqa: BLE001 (reading the rows again fails with the same error, which is then reported)
        activity.logger.warning("Cannot read the rows of the ended run %s: %s", ended.run_id, redact(repr(error)))
        return ended
