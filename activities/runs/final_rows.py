"""What a run that has ended brings along: its rows, when they are few."""

from apify_client import ApifyClientAsync
from temporalio import activity

from outlast.activities.failures.classify import redact
from outlast.activities.runs.contracts import EndedRun, WaitRunInput
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.activities.storages.described_pages import fetch_described_page

_MOST_ROWS = 1_000


async def with_few_rows(client: ApifyClientAsync, request: WaitRunInput, ended: EndedRun) -> EndedRun:
    """`ended` with its rows when `request` asks for them, all of them or none.

    Rows that cannot be read now are left out: the run's end must not be forgotten for them, and whoever wants them
    reads them anew.
    """
    if request.rows_within_bytes is None or not ended.is_final:
        return ended
    wanted = DatasetItemsInput(
        caller=request.caller,
        dataset_id=ended.dataset_id,
        limit=_MOST_ROWS,
        max_bytes=request.rows_within_bytes,
        whole=True,
        expect_items=ended.status == "SUCCEEDED",
        describe_run_store=ended.key_value_store_id,
    )
    try:
        return ended.model_copy(update={"rows": await fetch_described_page(client, wanted)})
    except Exception as error:  # noqa: BLE001 (whatever it is, it is met again, and told, by whoever reads the rows)
        activity.logger.warning(
            "The rows of run %s could not be read at its end: %s", ended.run_id, redact(repr(error))
        )
        return ended
