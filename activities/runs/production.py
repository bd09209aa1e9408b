"""What a run has produced: the rows, handled requests and records that a resurrected run can go on from."""

from outlast.activities.platform import apify
from outlast.activities.runs.contracts import Production

_INPUT = "INPUT"
_LIBRARYS_OWN = ("SDK_", "CRAWLEE_", "__")
"""What the Apify SDK and Crawlee keep of themselves: it is there when nothing was crawled, too."""
_KEYS_PER_PAGE = 1_000
_MOST_PAGES = 10


async def production_of(client: "apify.ApifyClientAsync", run_id: str, before: Production) -> Production:
    """What the run has produced so far. `before` is what it had produced before. Raises what apify-client raises."""
    run = client.run(run_id)
    queue = await run.request_queue().get()
    return Production(
        rows=await _rows(client, run_id, before.rows),
        requests=queue.handled_request_count if queue is not None else 0,
        records=await _records(client, run_id),
    )


async def _rows(client: "apify.ApifyClientAsync", run_id: str, before: int) -> int:
    """The number of rows. The count of a dataset lags behind its rows, so the next row is looked for."""
    dataset = client.run(run_id).dataset()
    found = await dataset.get()
    count = found.item_count if found is not None else 0
    if count > before:
        return count
    page = await dataset.list_items(offset=before, limit=1)
    return before + len(page.items)


async def _records(client: "apify.ApifyClientAsync", run_id: str) -> int:
    """The number of records, of many only the first ten thousand."""
    store = client.run(run_id).key_value_store()
    count, start = 0, None
    for _ in range(_MOST_PAGES):
        page = await store.list_keys(limit=_KEYS_PER_PAGE, exclusive_start_key=start)
        count += sum(item.key != _INPUT and not item.key.startswith(_LIBRARYS_OWN) for item in page.items)
        start = page.next_exclusive_start_key
        if not page.is_truncated or start is None:
            break
    return count
